"""The daemon that forks Spark's Python workers, with the engine already imported: a new worker is warm at once.

Workers collect garbage after every task. What is imported here is taken out of that, or each task would pay for a walk
through all modules.
"""

from __future__ import annotations

import atexit
import gc

import pandas  # noqa: F401  # this and the following are imported for the workers that are forked from here
import pyarrow.pandas_compat  # noqa: F401  # Arrow imports both when it makes its first array
import pyspark.worker  # noqa: F401
from pyspark.daemon import manager

import penstock.engine.task.level  # noqa: F401
from penstock.spark.workers.worker import Worker  # noqa: F401


def fork_workers() -> None:
    """Serve Spark's requests for workers until it ends."""
    atexit.register(gc.unfreeze)  # otherwise extension modules report leaks when the daemon ends
    gc.freeze()
    manager()


if __name__ == "__main__":
    fork_workers()
