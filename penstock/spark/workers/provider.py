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

LOOK_AROUND = 0.1  # seconds between looks for other jobs
ASIDE = 3.0  # seconds to stay away after another job wanted the cores


class Quarters:
    """Invariant: whoever uses or changes the crew has the lock; so epochs of several queries take turns."""

    def __init__(self, context: SparkContext) -> None:
        self._context = context
        self._lock = threading.Lock()
        self._queue: deque[None] = deque()  # as long as there are queries that wait for the lock
        self._shift: Shift | None = None
        self._equipment: object = None
        self._wanted = False  # by others, as far as the watcher knows
        self._away_until = 0.0
        self._jobs: set[int] = set()  # those that host our crews
        self._watcher: threading.Thread | None = None

    @contextmanager
    def shift(self) -> Iterator[Shift | None]:
        """The crew at work, for one epoch; None where the cores are wanted by others."""
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
        return self._wanted or bool(self._queue)

    def lost(self, crew: Crew) -> None:
        """The crew is of no use any more; the next epoch gets another one. Also from a thread without the lock."""
        crew.dismiss()
        if self._crew is crew:
            self._shift = None

    def close(self) -> None:
        """At the end of the process: no thread of ours is left behind."""
        if (crew := self._crew) is not None:
            self.lost(crew)
            crew.wait_until_gone()
        if self._watcher is not None:
            self._watcher.join()

    def _hire(self) -> None:
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
        if self._crew is not None:
            self.lost(self._crew)
        self._away_until = time.monotonic() + ASIDE if self._others_wait() else 0.0

    def _wanted_equipment(self) -> object:
        """What workers were started with: a change means new ones, as it does to Spark."""
        return dict(self._context.environment), tuple(self._context._python_includes)

    def _others_wait(self) -> bool:
        return not self._jobs.issuperset(self._context.statusTracker().getActiveJobsIds())

    def _watch(self, crew: Crew) -> None:
        """Look out for other jobs. Between epochs the crew goes at once, otherwise before the next one begins."""
        while self._crew is crew:
            time.sleep(LOOK_AROUND)
            try:
                self._wanted = self._others_wait()
            except Exception:  # the context was stopped, or its JVM has gone
                self.lost(crew)
            if self._wanted and self._lock.acquire(blocking=False):
                try:
                    if self._crew is crew:
                        self._dismiss()
                finally:
                    self._lock.release()


_quarters: dict[str, Quarters] = {}


def quarters_of(context: SparkContext) -> Quarters:
    """The one of a context, whatever queries it runs."""
    name = context.applicationId
    if name not in _quarters:
        _quarters[name] = Quarters(context)
        atexit.register(_quarters[name].close)
    return _quarters[name]
