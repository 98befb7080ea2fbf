"""How long rounds are. Pure.

Short rounds are quick to react, but see little: a policy then moves groups because of chance, or again before a move
has paid for itself. Flux (section 5.3) makes the next round as long as the last moves took, so that at most half of the
time goes into moving, halves it after a round without moves, and leaves the shortest length to the user; its figure 8
shows that a wrong one halves the throughput.

Here what moves cost is part of what the next round measures. So the half is asked of the gain, and the length follows
from the outcome: rounds get longer until decisions keep half of what they promised, whether it was chance or cost that
took the rest, and shorter while they do, or while nothing is to be done. They get shorter in smaller steps than longer,
for a round that is too short does harm, and one that is too long only delays.
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.balance.decisions import Measured


@dataclass(frozen=True)
class Pacing:
    """Lengths are seconds. Invariant: 0 < `least` <= `most`, `shorter` < 1 < `longer`.

    A length that was set below `least` or above `most` is left there until there is a reason to change it the other
    way. `chance` is the part by which the speed of a subquery differs from round to round for no reason.
    """

    least: float = 0.25
    most: float = 60.0
    shorter: float = 0.8
    longer: float = 2.0
    chance: float = 0.05

    def next_length(self, length: float, moved: bool, measured: Measured | None) -> float:
        """The length of the round after one of `length` at whose end something was `moved` or not, and which `measured`
        what had been decided before it."""
        if measured is not None and not self.paid(measured):
            return min(max(self.most, length), max(self.least, self.longer * length))
        if moved and measured is None:  # the first moves after a calm: nothing is known of them yet
            return length
        return max(min(self.least, length), self.shorter * length)

    def paid(self, outcome: Measured) -> bool:
        """Whether decisions kept half of what they promised; those that promised a loss must not lose more."""
        promised = outcome.predicted
        return outcome.measured >= min(promised, promised / 2) - self.chance
