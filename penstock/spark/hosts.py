"""Where the workers of a context are."""

from __future__ import annotations

import re

from pyspark import SparkContext

_LOCAL = re.compile(r"local(\[.*\])?")
_ONE_TRY = re.compile(r"local(\[[^,]*\])?")


def on_one_host(context: SparkContext) -> bool:
    """Whether all of them are on this host."""
    return _LOCAL.fullmatch(context.master) is not None


def tries_tasks_once(context: SparkContext) -> bool:
    """Return whether Spark gives a job up when a task has failed once, as local masters do unless told otherwise."""
    return _ONE_TRY.fullmatch(context.master) is not None
