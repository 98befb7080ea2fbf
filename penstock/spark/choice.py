"""Which executor runs the epochs of a query, and what becomes of an epoch when the JVM dies under it: an error that
says so, whatever PySpark would have said."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from py4j.protocol import Py4JNetworkError
from pyspark import SparkContext

from penstock.engine.driver.executor import Executor
from penstock.engine.wire.job import EpochJob, Following, Report, RouteTask, nothing_follows
from penstock.errors import PenstockError
from penstock.spark.failures import spark_died
from penstock.spark.hosts import on_one_host
from penstock.spark.jobs.executor import SparkExecutor
from penstock.spark.session import jvm_is_dead, last_words, spark_folder
from penstock.spark.workers import transport as parcels
from penstock.spark.workers.executor import CrewExecutor, quarters_of

_NOTICED_WITHIN = 2.0  # seconds: a connection breaks a little before its process has ended
_LOOK_EVERY = 0.02


def executor_on(context: SparkContext, direct: bool) -> Executor:
    """One that hands blobs over in memory, if that is wanted and possible."""
    jobs = SparkExecutor(context)
    if direct and parcels.available() and on_one_host(context):
        return GuardedExecutor(CrewExecutor(quarters_of(context), jobs, spark_folder(context)), context)
    return GuardedExecutor(jobs, context)


class GuardedExecutor:
    """Runs epochs by another executor, and tells the death of the JVM from other failures."""

    def __init__(self, executor: Executor, context: SparkContext) -> None:
        self._executor, self._context = executor, context

    def run(self, job: EpochJob, routes: Sequence[RouteTask], following: Following = nothing_follows) -> list[Report]:
        with self._guarded():
            return self._executor.run(job, routes, following)

    def cancel(self) -> None:
        with suppress(OSError, Py4JNetworkError):  # of a JVM that has died nothing is to be cancelled
            self._executor.cancel()

    def close(self) -> None:
        with suppress(OSError, Py4JNetworkError):
            self._executor.close()

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            if self._jvm_has_died(error):
                raise spark_died(last_words(self._context)) from error
            raise

    def _jvm_has_died(self, error: Exception) -> bool:
        if isinstance(error, PenstockError) and error.__cause__ is None and error.__context__ is None:
            return jvm_is_dead(self._context)
        deadline = time.monotonic() + _NOTICED_WITHIN
        while not jvm_is_dead(self._context) and time.monotonic() < deadline:
            time.sleep(_LOOK_EVERY)
        return jvm_is_dead(self._context) or isinstance(error, ConnectionError | Py4JNetworkError)
