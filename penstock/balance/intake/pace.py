"""The pace of epochs while no backlog drives them. Pure.

A pause lets rows gather, so that the fixed cost of an epoch is shared; but it is what a row waits for. Unless a pace is
given, pauses are as long as keeps epochs to a part of the time: short where epochs are, and little comes.
"""

from __future__ import annotations

from dataclasses import dataclass

LONGEST = 0.5  # seconds: no row waits longer to be looked at
SHORTEST = 0.02
TIMES_THE_WORK = 3  # a pause is so many times as long as the epoch before it
TIMES_THE_LOOK = 20  # and so many times as long as a look at the sources that found nothing


@dataclass(frozen=True)
class Pace:
    """`fixed`: epochs begin this many seconds apart, or further where one takes longer (None: as above)."""

    fixed: float | None = None

    def pause(self, worked: bool, seconds: float) -> float:
        """How long to rest after an epoch, or after a look that found nothing to do, which took `seconds`."""
        if self.fixed is not None:
            return max(0.0, self.fixed - seconds)
        return min(LONGEST, max(SHORTEST, seconds * (TIMES_THE_WORK if worked else TIMES_THE_LOOK)))
