"""Which executor runs the epochs of a query."""

from __future__ import annotations

import re

from pyspark import SparkContext

from penstock.engine.loop import Executor
from penstock.runtime import parcels
from penstock.runtime.crew_executor import CrewExecutor
from penstock.runtime.executor import SparkExecutor
from penstock.runtime.quarters import quarters_of

_ONE_HOST = re.compile(r"local(\[.*\])?")


def executor_on(context: SparkContext, direct: bool) -> Executor:
    """One that hands blobs over in memory, if that is wanted and possible."""
    if direct and parcels.available() and _ONE_HOST.fullmatch(context.master):
        return CrewExecutor(quarters_of(context), SparkExecutor(context))
    return SparkExecutor(context)
