"""The time of an experiment: a clock that is moved by hand, and one that counts processor time."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from penstock.clock import Clock
from penstock.engine.driver.executor import InlineExecutor
from penstock.engine.wire.job import EpochJob, LookAhead, Report, RouteTask, SiteReport, nothing_follows


@dataclass
class HandClock:
    """A clock that stands still until it is moved: `now` is both the system time and the monotonic time."""

    now: float = 0.0

    def time(self) -> float:
        """Return `now` as system time."""
        return self.now

    def monotonic(self) -> float:
        """Return `now`."""
        return self.now


class ProcessorClock:
    """A clock that counts the processor time of this process: other processes of the machine do not disturb it."""

    def time(self) -> float:
        """Return the seconds since 1970."""
        return time.time()

    def monotonic(self) -> float:
        """Return the processor time so far."""
        return time.process_time()


class SteppedExecutor(InlineExecutor):
    """Runs tasks in this process, one after the other, and moves the clock of the driver as if all sites had run at the
    same time: by `length` seconds for each epoch, or by those of the slowest site (None)."""

    def __init__(self, clock: HandClock, tasks: Clock, length: float | None) -> None:
        super().__init__(tasks)
        self._driver, self._length = clock, length

    def run(self, job: EpochJob, routes: Sequence[RouteTask], following: LookAhead = nothing_follows) -> list[Report]:
        reports = super().run(job, routes, following)
        slowest = max((report.time.seconds for report in reports if isinstance(report, SiteReport)), default=0.0)
        self._driver.now += slowest if self._length is None else self._length
        return reports
