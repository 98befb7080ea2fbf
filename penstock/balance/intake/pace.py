"""The pace of epochs while there is no backlog. Pure.

A pause lets rows gather, so that they divide the fixed cost of an epoch; but it also delays them. Unless a pace is
given, a pause is a multiple of the last epoch's time: epochs take a bounded part of the time, and pauses are short
where epochs are.
"""

from __future__ import annotations

from dataclasses import dataclass

LONGEST = 0.5  # seconds: the longest pause between two polls of the sources
SHORTEST = 0.02
TIMES_THE_WORK = 3  # a pause is so many times as long as the epoch before it
TIMES_THE_LOOK = 20  # and so many times as long as a poll of the sources that found nothing


@dataclass(frozen=True)
class Pace:
    """The rule for pauses. With `fixed`, epochs start that many seconds apart, or later if one takes longer; None: by
    the length of the last epoch."""

    fixed: float | None = None

    def pause(self, worked: bool, seconds: float) -> float:
        """Return the seconds to pause after an epoch (`worked`), or after a poll of the sources that found nothing,
        which took `seconds`."""
        if self.fixed is not None:
            return max(0.0, self.fixed - seconds)
        return min(LONGEST, max(SHORTEST, seconds * (TIMES_THE_WORK if worked else TIMES_THE_LOOK)))
