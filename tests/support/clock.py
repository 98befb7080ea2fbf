"""A clock that stands still until a test moves it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class SimulatedClock:
    """The time in the hands of a test: `now` is both the system time and the monotonic time, in seconds."""

    now: float = 0.0

    def time(self) -> float:
        """Return `now` as system time, which began with the clock, at 1970."""
        return self.now

    def monotonic(self) -> float:
        """Return `now`."""
        return self.now
