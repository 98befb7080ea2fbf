"""The daemon that forks Spark's Python workers, with the engine already imported, so that a new worker starts fast.

Workers collect garbage after every task. Modules imported here are frozen, that is, excluded from collection; otherwise
each task would traverse all their objects.
"""

from __future__ import annotations

import atexit
import gc

import pandas  # noqa: F401  # this and the following are imported for the workers that are forked from here
import pyarrow.pandas_compat  # noqa: F401  # Arrow imports both when it makes its first array
import pyspark.worker  # noqa: F401
from pyspark.daemon import manager

import penstock.engine.task.level  # noqa: F401
from penstock.spark.workers.worker import Member  # noqa: F401

if __name__ == "__main__":
    atexit.register(gc.unfreeze)  # otherwise extension modules report leaks when the daemon ends
    gc.freeze()
    manager()
