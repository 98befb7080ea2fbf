"""Measure where the time of a task or of the driver goes."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable

from penstock.clock import Clock
from penstock.engine.wire.job import RouteReport, SiteReport, TaskTime
from penstock.events import EpochTimed, TaskTimed


class Stopwatch:
    """A stopwatch that attributes elapsed time to named steps, in seconds.

    Invariant: the values of `steps` add up to the time from the start to the last lap; no time is counted twice.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock, self.started = clock, clock.time()
        self._began = self._last = clock.monotonic()
        self.steps: dict[str, float] = {}

    def lap(self, step: str) -> None:
        """Add the seconds since the last lap to this step."""
        now = self._clock.monotonic()
        self.steps[step] = self.steps.get(step, 0.0) + now - self._last
        self._last = now

    @property
    def seconds(self) -> float:
        """Return the seconds since the start."""
        return self._clock.monotonic() - self._began

    def task_time(self) -> TaskTime:
        """Return the times of the task that ran in this process, with its host and process id as the worker."""
        return TaskTime(f"{socket.gethostname()}:{os.getpid()}", self.started, self.seconds, self.steps)


def epoch_timed(epoch: int, driver: Stopwatch, reports: Iterable[RouteReport | SiteReport]) -> EpochTimed:
    """Return the event with the times of an epoch; the start of each task is given in seconds since the epoch began."""
    tasks = tuple(
        TaskTimed(
            name=report.producer,
            kind="route" if isinstance(report, RouteReport) else "site",
            worker=report.time.worker,
            started=report.time.started - driver.started,
            seconds=report.time.seconds,
            steps=report.time.steps,
            fetched=report.fetched if isinstance(report, SiteReport) else 0,
        )
        for report in reports
    )
    return EpochTimed(epoch, driver.seconds, driver.steps, tasks)
