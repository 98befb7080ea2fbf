"""State of a run as users see it: its progress and its recent events."""

from __future__ import annotations

import heapq
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime
from operator import itemgetter

from penstock.events import EpochCommitted, EpochTimed, Event

_KEPT_OF_EPOCHS, _KEPT_OTHERS = 1000, 5000  # events
_NEWEST = 0.3  # weight of the newest epoch in the rate of a clean-up


@dataclass(frozen=True)
class Progress:
    """The progress of a run. Rows and seconds count from the start of this run. `low_water_mark` is a datetime (UTC)
    for a TIMESTAMP column, the number itself for a BIGINT one, and None before the first rows and after the end. The
    checkpoint takes `disk_bytes`, without published rows, of `disk_limit` that it may take (None: no limit).
    About `parked_bytes` of state are parked; `freed_per_second` is how many bytes of it are cleaned up per second, 0 if
    none were in the last epoch."""

    state: str = "running"
    epoch: int = 0
    epochs: int = 0
    rows_in: int = 0
    rows_out: int = 0
    late_rows: int = 0
    bad_rows: int = 0
    seconds: float = 0.0
    waiting: int = 0
    low_water_mark: datetime | int | None = None
    dropped_epochs: int = 0
    disk_bytes: int = 0
    disk_limit: int | None = None
    parked_bytes: int = 0
    freed_per_second: float = 0.0
    started: float = field(default_factory=time.perf_counter, repr=False)

    def plus(self, event: EpochCommitted, low_water_mark: datetime | int | None) -> Progress:
        """Return the progress after one more epoch."""
        return replace(
            self,
            epoch=event.epoch,
            epochs=self.epochs + 1,
            rows_in=self.rows_in + event.rows_in,
            rows_out=self.rows_out + event.rows_out,
            late_rows=self.late_rows + event.late_rows,
            bad_rows=self.bad_rows + event.bad_rows,
            seconds=self.elapsed,
            waiting=event.waiting + event.pending,
            low_water_mark=low_water_mark,
            disk_bytes=event.disk_bytes,
            parked_bytes=event.parked_bytes,
            freed_per_second=self._freed_per_second(event),
        )

    def _freed_per_second(self, event: EpochCommitted) -> float:
        """Return the rate of a clean-up, smoothed over its epochs."""
        freed = self.parked_bytes - event.parked_bytes
        if freed <= 0:
            return 0.0
        now = freed / max(event.seconds, 1e-6)
        return (1 - _NEWEST) * self.freed_per_second + _NEWEST * now if self.freed_per_second else now

    @property
    def seconds_to_clean_up(self) -> float | None:
        """Return about how many seconds it takes until no state is parked; None if none is cleaned up now."""
        return self.parked_bytes / self.freed_per_second if self.freed_per_second else None

    @property
    def elapsed(self) -> float:
        """Return the seconds since the start of this run."""
        return time.perf_counter() - self.started

    @property
    def rows_per_second(self) -> float:
        """Return the mean input rate of this run."""
        return self.rows_in / self.seconds if self.seconds else 0.0


@dataclass
class EventLog:
    """Keeps recent events of the loop and passes each on to `listeners`. Per-epoch events have their own ring, so that
    they do not displace rare ones. Invariant: every kept event has a sequence number, and each ring is in its order."""

    listeners: list[Callable[[Event], None]] = field(default_factory=list)
    _of_epochs: deque[tuple[int, Event]] = field(default_factory=lambda: deque(maxlen=_KEPT_OF_EPOCHS))
    _others: deque[tuple[int, Event]] = field(default_factory=lambda: deque(maxlen=_KEPT_OTHERS))
    _count: int = 0

    def record(self, event: Event) -> None:
        """Keep an event and pass it on to the listeners."""
        self._count += 1
        kept = self._of_epochs if isinstance(event, EpochCommitted | EpochTimed) else self._others
        kept.append((self._count, event))
        for listener in self.listeners:
            listener(event)

    @property
    def events(self) -> tuple[Event, ...]:
        """Return the kept events, oldest first. Each ring is copied first, because the run keeps appending."""
        both = tuple(self._of_epochs), tuple(self._others)
        return tuple(event for _, event in heapq.merge(*both, key=itemgetter(0)))
