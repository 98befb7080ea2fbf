"""Where the crew of a context lives, between epochs and between queries.

A crew holds all cores of its context. It steps aside as soon as another job wants them, and is hired again later.
"""

from __future__ import annotations

import atexit
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark import SparkContext

from penstock.spark.workers.pool import Crew, hire
from penstock.spark.workers.scheduler import Shift

LOOK_AROUND = 0.1  # seconds between two checks for other jobs
ASIDE = 3.0  # seconds without a pool after another job needed the cores


class Quarters:
    """The worker pool of a Spark context. Invariant: the pool is used or replaced only while holding the lock, so
    epochs of several queries take turns; `lost` may also be called without it."""

    def __init__(self, context: SparkContext) -> None:
        self._context = context
        self._lock = threading.Lock()
        self._queue: deque[None] = deque()  # one entry per query that waits for the lock
        self._shift: Shift | None = None
        self._equipment: object = None
        self._wanted = False  # whether other jobs need the cores, as far as the watcher knows
        self._away_until = 0.0
        self._jobs: set[int] = set()  # the ids of the jobs of our pools
        self._watcher: threading.Thread | None = None

    @contextmanager
    def shift(self) -> Iterator[Shift | None]:
        """Lease the scheduler of the pool for one epoch; start a pool if there is none. Yields None if other jobs need
        the cores."""
        self._queue.append(None)
        with self._lock:
            self._queue.pop()
            if self._crew is not None and (self._wanted or self._equipment != self._wanted_equipment()):
                self._dismiss()
            if self._crew is None and time.monotonic() >= self._away_until and not self._others_wait():
                self._hire()
            yield self._shift

    @property
    def _crew(self) -> Crew | None:
        return None if (shift := self._shift) is None else shift.crew

    def wanted(self) -> bool:
        """Return whether another job needs the cores, or another query waits for the pool."""
        return self._wanted or bool(self._queue)

    def lost(self, crew: Crew) -> None:
        """Stop a pool that can no longer be used; the next epoch gets another one. May be called without the lock."""
        crew.dismiss()
        if self._crew is crew:
            self._shift = None

    def close(self) -> None:
        """Stop the pool and wait for its threads, at the end of the process."""
        if (crew := self._crew) is not None:
            self.lost(crew)
            crew.wait_until_gone()
        if self._watcher is not None:
            self._watcher.join()

    def _hire(self) -> None:
        """Start a pool on all cores, with a thread that watches for other jobs; if it does not start, retry only after
        `ASIDE` seconds."""
        self._equipment, self._wanted = self._wanted_equipment(), False
        crew = hire(self._context, self._context.defaultParallelism)
        if crew is None:
            self._away_until = time.monotonic() + ASIDE
            return
        self._shift = Shift(crew)
        self._jobs.update(self._context.statusTracker().getJobIdsForGroup(crew.group))
        self._watcher = threading.Thread(target=self._watch, args=(crew,), name="penstock-watch", daemon=True)
        self._watcher.start()

    def _dismiss(self) -> None:
        """Stop the pool; if other jobs need the cores, do not start one for `ASIDE` seconds."""
        if self._crew is not None:
            self.lost(self._crew)
        self._away_until = time.monotonic() + ASIDE if self._others_wait() else 0.0

    def _wanted_equipment(self) -> object:
        """Return the environment and files that workers start with: like Spark, start new workers when these change."""
        return dict(self._context.environment), tuple(self._context._python_includes)

    def _others_wait(self) -> bool:
        """Return whether jobs other than those of our pools are active."""
        return not self._jobs.issuperset(self._context.statusTracker().getActiveJobsIds())

    def _watch(self, crew: Crew) -> None:
        """Watch for other jobs while the pool exists. Stop the pool at once if no epoch is running, otherwise before
        the next one."""
        while self._crew is crew:
            time.sleep(LOOK_AROUND)
            try:
                self._wanted = self._others_wait()
            except Exception:  # the context was stopped, or its JVM has died
                self.lost(crew)
            if self._wanted and self._lock.acquire(blocking=False):
                try:
                    if self._crew is crew:
                        self._dismiss()
                finally:
                    self._lock.release()


_quarters: dict[str, Quarters] = {}


def quarters_of(context: SparkContext) -> Quarters:
    """Return the pool provider of a context, shared by all its queries."""
    name = context.applicationId
    if name not in _quarters:
        _quarters[name] = Quarters(context)
        atexit.register(_quarters[name].close)
    return _quarters[name]
