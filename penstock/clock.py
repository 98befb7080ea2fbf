"""The clock that is passed to whatever depends on time. The engine never reads the system's clock by itself, so a test
can let it run in simulated time. A stopwatch over a clock says where the time of a task or of the driver goes.
"""

from __future__ import annotations

import os
import socket
import time
from dataclasses import dataclass
from typing import Protocol


class Clock(Protocol):
    """Tells the time, in seconds."""

    def time(self) -> float:
        """Return the seconds since 1970. Two hosts agree about them, but they may jump when a clock is set."""
        ...

    def monotonic(self) -> float:
        """Return the seconds since some moment, for measuring how long something takes."""
        ...


class SystemClock:
    """The clock of this host."""

    def time(self) -> float:
        """Return the seconds since 1970."""
        return time.time()

    def monotonic(self) -> float:
        """Return the seconds since some moment, as finely as the system measures them."""
        return time.perf_counter()


SYSTEM_CLOCK = SystemClock()


@dataclass(frozen=True)
class TaskTime:
    """The start of a task, by the clock of its host, and its duration, in total and by step, all in seconds."""

    worker: str
    started: float
    seconds: float
    steps: dict[str, float]


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
