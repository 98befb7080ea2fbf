"""The executor of a query, and the worker pool that all queries of a Spark context share.

Epochs run on the pool where there is one (`PooledExecutor`), and as jobs of Spark otherwise. When the JVM dies under an
epoch, `GuardedExecutor` raises an error that says so, whatever PySpark would have said. A pool holds all cores of its
context. It steps aside as soon as another job wants them, and is started again later (`SparkPoolProvider`).
"""

from __future__ import annotations

import atexit
import logging
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Protocol

from py4j.protocol import Py4JNetworkError
from pyspark import SparkContext

from penstock.engine.driver.executor import Executor
from penstock.engine.wire.job import EpochJob, LookAhead, Report, RouteTask, nothing_follows
from penstock.errors import AttemptFailed, PenstockError
from penstock.spark.failures import attempt_failed, short_reason, spark_died, task_failed
from penstock.spark.hosts import on_one_host
from penstock.spark.jobs.executor import SparkExecutor
from penstock.spark.session import jvm_is_dead, last_words, spark_folder
from penstock.spark.workers import transport
from penstock.spark.workers.pool import WorkerLost, WorkerPool, start_pool
from penstock.spark.workers.scheduler import EpochScheduler

_log = logging.getLogger(__name__)
_NOTICED_WITHIN = 2.0  # seconds: a connection breaks a little before its process ends
_LOOK_EVERY = 0.02


WATCH_SECONDS = 0.1  # seconds between two checks for other jobs
BACKOFF_SECONDS = 3.0  # seconds without a pool after another job needed the cores


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

    def run(self, job: EpochJob, routes: Sequence[RouteTask], following: LookAhead = nothing_follows) -> list[Report]:
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
        """Raise the error of a dead JVM in place of the original one, if the JVM has died."""
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

    def run(self, job: EpochJob, routes: Sequence[RouteTask], following: LookAhead = nothing_follows) -> list[Report]:
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
        self, scheduler: EpochScheduler, job: EpochJob, routes: Sequence[RouteTask], following: LookAhead
    ) -> list[Report]:
        """Run an epoch on a leased pool. The next epoch is not started ahead if others wait for the pool."""
        self._pool = scheduler.pool
        try:
            return scheduler.run(job, routes, lambda reports: None if self._provider.wanted() else following(reports))
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


class SparkPoolProvider:
    """The worker pool of a Spark context. Invariant: the pool is used or replaced only while holding the lock, so
    epochs of several queries take turns; `lost` may also be called without it."""

    def __init__(self, context: SparkContext) -> None:
        self._context = context
        self._lock = threading.Lock()
        self._queue: deque[None] = deque()  # one entry per query that waits for the lock
        self._scheduler: EpochScheduler | None = None
        self._worker_setup: object = None
        self._wanted = False  # whether other jobs need the cores, as far as the watcher knows
        self._no_pool_until = 0.0
        self._jobs: set[int] = set()  # the ids of the jobs of our pools
        self._watcher: threading.Thread | None = None

    @contextmanager
    def lease(self) -> Iterator[EpochScheduler | None]:
        """Lease the scheduler of the pool for one epoch; start a pool if there is none. Yields None if other jobs need
        the cores."""
        self._queue.append(None)
        with self._lock:
            self._queue.pop()
            if self._pool is not None and (self._wanted or self._worker_setup != self._current_setup()):
                self._stop_pool()
            if self._pool is None and time.monotonic() >= self._no_pool_until and not self._others_wait():
                self._start_pool()
            yield self._scheduler

    @property
    def _pool(self) -> WorkerPool | None:
        return None if (scheduler := self._scheduler) is None else scheduler.pool

    def wanted(self) -> bool:
        """Return whether another job needs the cores, or another query waits for the pool."""
        return self._wanted or bool(self._queue)

    def lost(self, pool: WorkerPool) -> None:
        """Stop a pool that can no longer be used; the next epoch gets another one. May be called without the lock."""
        pool.stop()
        if self._pool is pool:
            self._scheduler = None

    def close(self) -> None:
        """Stop the pool and wait for its threads, at the end of the process."""
        if (pool := self._pool) is not None:
            self.lost(pool)
            pool.join()
        if self._watcher is not None:
            self._watcher.join()

    def _start_pool(self) -> None:
        """Start a pool on all cores, with a thread that watches for other jobs; if it does not start, retry only after
        `BACKOFF_SECONDS` seconds."""
        self._worker_setup, self._wanted = self._current_setup(), False
        pool = start_pool(self._context, self._context.defaultParallelism)
        if pool is None:
            self._no_pool_until = time.monotonic() + BACKOFF_SECONDS
            return
        self._scheduler = EpochScheduler(pool)
        self._jobs.update(self._context.statusTracker().getJobIdsForGroup(pool.group))
        self._watcher = threading.Thread(target=self._watch, args=(pool,), name="penstock-watch", daemon=True)
        self._watcher.start()

    def _stop_pool(self) -> None:
        """Stop the pool; if other jobs need the cores, do not start one for `BACKOFF_SECONDS` seconds."""
        _log.info("the worker pool stops: %s", "another job needs its cores" if self._wanted else "its setup changed")
        if self._pool is not None:
            self.lost(self._pool)
        self._no_pool_until = time.monotonic() + BACKOFF_SECONDS if self._others_wait() else 0.0

    def _current_setup(self) -> object:
        """Return the environment and files that workers start with: like Spark, start new workers when these change."""
        return dict(self._context.environment), tuple(self._context._python_includes)

    def _others_wait(self) -> bool:
        """Return whether jobs other than those of our pools are active."""
        return not self._jobs.issuperset(self._context.statusTracker().getActiveJobsIds())

    def _watch(self, pool: WorkerPool) -> None:
        """Watch for other jobs while the pool exists. Stop the pool at once if no epoch is running, otherwise before
        the next one."""
        while self._pool is pool:
            time.sleep(WATCH_SECONDS)
            try:
                self._wanted = self._others_wait()
            except Exception as error:  # the context was stopped, or its JVM has died
                _log.info("the worker pool stops, Spark does not answer: %s", short_reason(error))
                self.lost(pool)
            if self._wanted and self._lock.acquire(blocking=False):
                try:
                    if self._pool is pool:
                        self._stop_pool()
                finally:
                    self._lock.release()


_providers: dict[str, SparkPoolProvider] = {}


def pool_provider_of(context: SparkContext) -> SparkPoolProvider:
    """Return the pool provider of a context, shared by all its queries."""
    name = context.applicationId
    if name not in _providers:
        _providers[name] = SparkPoolProvider(context)
        atexit.register(_providers[name].close)
    return _providers[name]
