"""Choose the executor of a query, and report the death of the JVM as an error that says so, whatever error PySpark
raises."""

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

_NOTICED_WITHIN = 2.0  # seconds: a connection breaks a little before its process ends
_LOOK_EVERY = 0.02


def executor_on(context: SparkContext, direct: bool) -> Executor:
    """Return the executor for a context: on a pool of workers that exchange blobs in memory, if `direct` is set and
    that is possible; otherwise as jobs of Spark."""
    jobs = SparkExecutor(context)
    if direct and parcels.available() and on_one_host(context):
        return GuardedExecutor(CrewExecutor(quarters_of(context), jobs, spark_folder(context)), context)
    return GuardedExecutor(jobs, context)


class GuardedExecutor:
    """Runs epochs on another executor, and distinguishes the death of the JVM from other failures."""

    def __init__(self, executor: Executor, context: SparkContext) -> None:
        self._executor, self._context = executor, context

    def run(self, job: EpochJob, routes: Sequence[RouteTask], following: Following = nothing_follows) -> list[Report]:
        with self._guarded():
            return self._executor.run(job, routes, following)

    def cancel(self) -> None:
        with suppress(OSError, Py4JNetworkError):  # a dead JVM runs nothing that could be cancelled
            self._executor.cancel()

    def close(self) -> None:
        with suppress(OSError, Py4JNetworkError):
            self._executor.close()

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        """Replace an error by one that says that the JVM died, if it did."""
        try:
            yield
        except Exception as error:
            if self._jvm_has_died(error):
                raise spark_died(last_words(self._context)) from error
            raise

    def _jvm_has_died(self, error: Exception) -> bool:
        """Return whether the JVM is dead, waiting briefly unless the error is one that Penstock raised by itself."""
        if isinstance(error, PenstockError) and error.__cause__ is None and error.__context__ is None:
            return jvm_is_dead(self._context)
        deadline = time.monotonic() + _NOTICED_WITHIN
        while not jvm_is_dead(self._context) and time.monotonic() < deadline:
            time.sleep(_LOOK_EVERY)
        return jvm_is_dead(self._context) or isinstance(error, ConnectionError | Py4JNetworkError)
