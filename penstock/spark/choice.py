"""The executor of a query: epochs run on the worker pool where there is one, and as jobs of Spark otherwise. And what
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
from penstock.errors import AttemptFailed, PenstockError
from penstock.spark.failures import attempt_failed, spark_died, task_failed
from penstock.spark.hosts import on_one_host
from penstock.spark.jobs.executor import SparkExecutor
from penstock.spark.session import jvm_is_dead, last_words, spark_folder
from penstock.spark.workers import transport
from penstock.spark.workers.pool import WorkerLost, WorkerPool
from penstock.spark.workers.provider import pool_provider_of
from penstock.spark.workers.scheduler import EpochScheduler

_NOTICED_WITHIN = 2.0  # seconds: a connection breaks a little before its process ends
_LOOK_EVERY = 0.02


def executor_on(context: SparkContext, direct: bool) -> Executor:
    """Return the executor for a context: on a pool of workers that exchange blobs in memory, if `direct` is set and
    that is possible; otherwise as jobs of Spark."""
    jobs = SparkExecutor(context)
    if direct and transport.available() and on_one_host(context):
        return GuardedExecutor(PooledExecutor(pool_provider_of(context), jobs, spark_folder(context)), context)
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
        """Return whether the JVM is dead, waiting briefly unless the error is one that Penstock raised by itself, or
        another attempt follows and would notice."""
        raised_here = isinstance(error, PenstockError) and error.__cause__ is None and error.__context__ is None
        if raised_here or isinstance(error, AttemptFailed):
            return jvm_is_dead(self._context)
        deadline = time.monotonic() + _NOTICED_WITHIN
        while not jvm_is_dead(self._context) and time.monotonic() < deadline:
            time.sleep(_LOOK_EVERY)
        return jvm_is_dead(self._context) or isinstance(error, ConnectionError | Py4JNetworkError)


class PoolProvider(Protocol):
    """Provides a worker pool."""

    def lease(self) -> AbstractContextManager[EpochScheduler | None]:
        """Lease the scheduler of the pool for one epoch, exclusively; yields None if there is no pool now."""
        ...

    def wanted(self) -> bool:
        """Return whether another query waits for the pool, or another job for its cores."""
        ...

    def lost(self, pool: WorkerPool) -> None:
        """Stop a pool that can no longer be used."""
        ...


class PooledExecutor:
    """Runs epochs on the pool of `provider`, and by `jobs` while there is none. `folder` is where Spark keeps its
    files, if known; it is named in the error for a full disk."""

    def __init__(self, provider: PoolProvider, jobs: Executor, folder: Path | None = None) -> None:
        self._provider, self._jobs, self._folder = provider, jobs, folder
        self._pool: WorkerPool | None = None  # the pool on which an epoch of this query is running
        self._cancelled = False

    def run(self, job: EpochJob, routes: Sequence[RouteTask], following: Following = nothing_follows) -> list[Report]:
        """Run an epoch; raise `AttemptFailed` if the pool is lost. The next attempt gets another one."""
        self._cancelled = False
        with self._provider.lease() as scheduler:
            if scheduler is not None:
                try:
                    return self._run_on_pool(scheduler, job, routes, following)
                except WorkerLost as error:
                    if self._cancelled:
                        raise PenstockError(f"epoch {job.epoch} was cancelled") from error
                    raise attempt_failed(task_failed(job.epoch, str(error), self._folder), error.worker) from error
        return self._jobs.run(job, routes)

    def _run_on_pool(
        self, scheduler: EpochScheduler, job: EpochJob, routes: Sequence[RouteTask], following: Following
    ) -> list[Report]:
        """Run an epoch on a leased pool. The next epoch is not started ahead if others wait for the pool."""
        self._pool = scheduler.pool
        try:
            return scheduler.run(job, routes, lambda told: None if self._provider.wanted() else following(told))
        except BaseException:
            self._provider.lost(scheduler.pool)  # its workers may still be running tasks of this epoch
            raise
        finally:
            self._pool = None

    def cancel(self) -> None:
        self._cancelled = True
        if (pool := self._pool) is not None:
            self._provider.lost(pool)
        self._jobs.cancel()

    def close(self) -> None:
        """Do nothing: the pool stays for the next query."""
