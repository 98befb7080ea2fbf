"""Which executor runs the epochs of a query: on a crew where there is one, and as jobs of Spark where not. And what
becomes of an epoch when the JVM dies under it: an error that says so, whatever PySpark would have said."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Protocol

from py4j.protocol import Py4JNetworkError
from pyspark import SparkContext

from penstock.engine.driver.executor import Executor
from penstock.engine.wire.job import EpochJob, Following, Report, RouteTask, nothing_follows
from penstock.errors import PenstockError
from penstock.spark.failures import TRIES, spark_died, task_failed
from penstock.spark.hosts import on_one_host
from penstock.spark.jobs.executor import SparkExecutor
from penstock.spark.session import jvm_is_dead, last_words, spark_folder
from penstock.spark.workers import transport as parcels
from penstock.spark.workers.pool import Crew, CrewLost
from penstock.spark.workers.provider import quarters_of
from penstock.spark.workers.scheduler import Shift

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


class Housing(Protocol):
    """Where a crew lives."""

    def shift(self) -> AbstractContextManager[Shift | None]:
        """The crew at work, for one epoch, and for nobody else at the same time; None where there is none now."""
        ...

    def wanted(self) -> bool:
        """Whether others wait for the crew, or for its cores."""
        ...

    def lost(self, crew: Crew) -> None:
        """The crew is of no use any more."""
        ...


class CrewExecutor:
    """Runs epochs on the crew of `quarters`, and by `jobs` while there is none. `folder` is where Spark has its files,
    which need not be known."""

    def __init__(self, quarters: Housing, jobs: Executor, folder: Path | None = None) -> None:
        self._quarters, self._jobs, self._folder = quarters, jobs, folder
        self._crew: Crew | None = None  # the one that an epoch of this query is running on
        self._cancelled = False

    def run(self, job: EpochJob, routes: Sequence[RouteTask], following: Following = nothing_follows) -> list[Report]:
        self._cancelled, told = False, ""
        for _ in range(TRIES):
            with self._quarters.shift() as shift:
                if shift is None:
                    break
                try:
                    return self._on_crew(shift, job, routes, following)
                except CrewLost as error:
                    told = str(error)
            if self._cancelled:
                raise PenstockError(f"epoch {job.epoch} was given up")
        else:
            raise task_failed(job.epoch, told, self._folder)
        return self._jobs.run(job, routes)

    def _on_crew(self, shift: Shift, job: EpochJob, routes: Sequence[RouteTask], following: Following) -> list[Report]:
        self._crew = shift.crew
        try:
            return shift.run(job, routes, lambda told: None if self._quarters.wanted() else following(told))
        except BaseException:
            self._quarters.lost(shift.crew)  # who knows what its members are still at
            raise
        finally:
            self._crew = None

    def cancel(self) -> None:
        self._cancelled = True
        if (crew := self._crew) is not None:
            self._quarters.lost(crew)
        self._jobs.cancel()

    def close(self) -> None:
        """Nothing: the next query finds the crew warm."""
