"""The process of a job of nothing: two stages over no rows, on a Spark context like the one that epochs run on.

It has a process of its own: the workers that serve epochs hold all cores of their context, and would first have to step
aside for another job.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from penstock_bench.experiments.part import serve

if TYPE_CHECKING:
    from pyspark import SparkContext


def measure(master: str) -> float:
    """The seconds of one job."""
    from penstock.spark.session import spark_context

    context = spark_context(master)  # started by the first question, and kept
    began = time.perf_counter()
    _run(context)
    return time.perf_counter() - began


def _run(context: SparkContext) -> None:
    nothing: list[tuple[int, bytes]] = []
    context.parallelize(nothing, 2).partitionBy(2, int).mapPartitions(iter).collect()


if __name__ == "__main__":
    serve(str, measure)
