"""A clock that stands still until a test moves it, for the loop's idea of which sources are idle."""

from __future__ import annotations

import time
from dataclasses import dataclass


@dataclass
class Clock:
    """Stands in for the module `time` in the loop."""

    now: float = 0.0
    perf_counter = staticmethod(time.perf_counter)

    def monotonic(self) -> float:
        return self.now

    def time_ns(self) -> int:
        """System time began with the clock, at 1970."""
        return round(self.now * 1e9)
