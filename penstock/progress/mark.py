"""A mark is a bound on progress: "no more rows below `at`" or, once `ended`, "no more rows at all".

The end of a stream is a flag, not the largest time, so that a row at the largest time is still a row. Marks are
ordered; arithmetic on them saturates at the limits of a 64-bit time.
"""

from __future__ import annotations

from dataclasses import dataclass

MIN_TIME = -(2**63)
MAX_TIME = 2**63 - 1


def saturate(time: int) -> int:
    """Return the nearest 64-bit time."""
    return max(MIN_TIME, min(MAX_TIME, time))


@dataclass(frozen=True, order=True)
class Mark:
    """A bound on progress: no more rows below `at` or, if `ended`, no more rows.

    Invariant: MIN_TIME <= at <= MAX_TIME, and an ended mark has at == MAX_TIME, so that all ended marks are equal.
    """

    ended: bool
    at: int

    def shift(self, by: int) -> Mark:
        """Return the mark moved by a span of time. An ended mark stays as it is."""
        return self if self.ended else at(self.at + by)

    def passed(self, time: int) -> bool:
        """Return whether no more rows below `time` can arrive."""
        return self.ended or self.at >= time

    def is_beyond(self, time: int) -> bool:
        """Return whether no more rows at or below `time` can arrive."""
        return self.ended or self.at > time


def at(time: int) -> Mark:
    """Return the mark "no more rows below `time`"."""
    return Mark(False, saturate(time))


BEGIN = Mark(False, MIN_TIME)
END = Mark(True, MAX_TIME)


Marks = tuple[Mark, ...]  # one per track
