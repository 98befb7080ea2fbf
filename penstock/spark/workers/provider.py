"""The worker pool of a Spark context, shared by all its queries, epoch after epoch.

A pool holds all cores of its context. It steps aside as soon as another job wants them, and is started again later.
"""

from __future__ import annotations

import atexit
import logging
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark import SparkContext

from penstock.spark.failures import short_reason
from penstock.spark.workers.pool import WorkerPool, start_pool
from penstock.spark.workers.scheduler import EpochScheduler

_log = logging.getLogger(__name__)
WATCH_SECONDS = 0.1  # seconds between two checks for other jobs
BACKOFF_SECONDS = 3.0  # seconds without a pool after another job needed the cores


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
