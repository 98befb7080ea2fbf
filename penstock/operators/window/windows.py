"""Time windows and the panes they consist of.

A window is half-open, `[start, start + size)`, where `start` is `offset` plus a multiple of `slide`, rounded down also
before 1970. A pane is the widest span of time that no window border cuts. Every window is a whole number of panes, so a
row is processed once, in its pane, however many windows contain it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from penstock.errors import QueryError
from penstock.kernels.arrays import Times
from penstock.progress.mark import MAX_TIME, MIN_TIME


@dataclass(frozen=True)
class Window:
    """A tumbling or sliding window over the time column `time`.

    Invariant: size > 0, slide > 0, 0 <= offset < slide. Spans are in the unit of the time column (microseconds for a
    TIMESTAMP).
    """

    time: str
    size: int
    slide: int
    offset: int = 0

    def __post_init__(self) -> None:
        if self.size <= 0 or self.slide <= 0:
            raise QueryError(
                "a window needs a size and a slide above zero",
                detail=f"size {self.size}, slide {self.slide}",
                hint="write the larger one as the size, as in HOP(t, ts, INTERVAL '10' SECOND, INTERVAL '1' MINUTE)",
            )
        object.__setattr__(self, "offset", self.offset % self.slide)

    @property
    def per_row(self) -> int:
        """Return the largest number of windows that contain one row."""
        return -(-self.size // self.slide)

    @property
    def pane(self) -> int:
        """Return the width of a pane."""
        return math.gcd(self.size, self.slide)

    @property
    def earliest(self) -> int:
        """Return the least event time whose windows all fit 64-bit times."""
        return MIN_TIME + self.size + self.slide

    @property
    def latest(self) -> int:
        """Return the largest event time whose windows all fit 64-bit times."""
        return MAX_TIME - self.size - self.slide

    def pane_starts(self, times: Times) -> Times:
        """Return the start of the pane of each time. The times must lie between `earliest` and `latest`."""
        shift = self.offset % self.pane
        starts = times - shift
        starts //= self.pane  # in place, because an allocation costs more than the arithmetic
        starts *= self.pane
        starts += shift
        return starts

    def starts_of(self, times: Times) -> tuple[Times, Times]:
        """Return the starts of the first and the last window that contain each time. For a time in a gap between
        windows, the first is above the last. Counts back from the last window, because the time one window earlier may
        not fit 64 bits."""
        into_last = (times - self.offset) % self.slide
        last = times - into_last
        return last - (self.size - 1 - into_last) // self.slide * self.slide, last

    def first_start_ending_after(self, time: int) -> int:
        """Return the start of the first window that ends above `time`."""
        return (time - self.size - self.offset) // self.slide * self.slide + self.slide + self.offset

    def last_start_at_or_before(self, time: int) -> int:
        """Return the start of the last window that starts at or before `time`."""
        return (time - self.offset) // self.slide * self.slide + self.offset
