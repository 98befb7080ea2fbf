"""Where the workers of a context run."""

from __future__ import annotations

import re

from pyspark import SparkContext

_LOCAL = re.compile(r"local(\[.*\])?")
_ONE_TRY = re.compile(r"local(\[[^,]*\])?")


def on_one_host(context: SparkContext) -> bool:
    """Return whether all workers run on this host."""
    return _LOCAL.fullmatch(context.master) is not None


def tries_tasks_once(context: SparkContext) -> bool:
    """Return whether Spark fails a job after one failed attempt of a task, as local masters do by default."""
    return _ONE_TRY.fullmatch(context.master) is not None
