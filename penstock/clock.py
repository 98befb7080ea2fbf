"""The clock that is passed to whatever depends on time. The engine never reads the system's clock by itself, so a test
can let it run in simulated time."""

from __future__ import annotations

import time
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
