"""Which executor runs the epochs of a query."""

from __future__ import annotations

from pyspark import SparkContext

from penstock.engine.loop import Executor
from penstock.runtime import parcels
from penstock.runtime.crew_executor import CrewExecutor
from penstock.runtime.executor import SparkExecutor
from penstock.runtime.guarded import GuardedExecutor
from penstock.runtime.hosts import on_one_host
from penstock.runtime.quarters import quarters_of
from penstock.runtime.session import spark_folder


def executor_on(context: SparkContext, direct: bool) -> Executor:
    """One that hands blobs over in memory, if that is wanted and possible."""
    jobs = SparkExecutor(context)
    if direct and parcels.available() and on_one_host(context):
        return GuardedExecutor(CrewExecutor(quarters_of(context), jobs, spark_folder(context)), context)
    return GuardedExecutor(jobs, context)
