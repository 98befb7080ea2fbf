"""A mark is a bound on progress: "no more rows below `at`", or, once `ended`, "no more rows at all".

The end of a stream is a flag and not the largest time, so that a row at the largest time is still a row. Marks are
ordered; arithmetic on them saturates at the limits of a 64-bit time.
"""

from __future__ import annotations

from dataclasses import dataclass

MIN_TIME = -(2**63)
MAX_TIME = 2**63 - 1


def saturate(time: int) -> int:
    """The nearest 64-bit time."""
    return max(MIN_TIME, min(MAX_TIME, time))


@dataclass(frozen=True, order=True)
class Mark:
    """Invariant: MIN_TIME <= at <= MAX_TIME, and an ended mark has at == MAX_TIME, so that all of them are equal."""

    ended: bool
    at: int

    def shift(self, by: int) -> Mark:
        """The mark moved by a span of time; the end stays the end."""
        return self if self.ended else at(self.at + by)

    def passed(self, time: int) -> bool:
        """Whether no row below `time` can come any more."""
        return self.ended or self.at >= time


def at(time: int) -> Mark:
    """The mark "no more rows below `time`"."""
    return Mark(False, saturate(time))


BEGIN = Mark(False, MIN_TIME)
END = Mark(True, MAX_TIME)
