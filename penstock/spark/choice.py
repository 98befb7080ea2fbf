"""Which executor runs the epochs of a query."""

from __future__ import annotations

from pyspark import SparkContext

from penstock.engine.driver.loop import Executor
from penstock.spark.guarded import GuardedExecutor
from penstock.spark.hosts import on_one_host
from penstock.spark.jobs.executor import SparkExecutor
from penstock.spark.session import spark_folder
from penstock.spark.workers import transport as parcels
from penstock.spark.workers.executor import CrewExecutor
from penstock.spark.workers.provider import quarters_of


def executor_on(context: SparkContext, direct: bool) -> Executor:
    """One that hands blobs over in memory, if that is wanted and possible."""
    jobs = SparkExecutor(context)
    if direct and parcels.available() and on_one_host(context):
        return GuardedExecutor(CrewExecutor(quarters_of(context), jobs, spark_folder(context)), context)
    return GuardedExecutor(jobs, context)
