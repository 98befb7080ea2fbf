"""The length of rounds. Pure.

Short rounds react fast but measure little: a policy then moves groups by chance, or again before a move has paid off.
Flux (section 5.3) makes the next round as long as the last moves took, so that at most half of the time is spent on
moving, halves it after a round without moves, and leaves the shortest length to the user; its figure 8 shows that a
wrong one halves the throughput.

Here the cost of moves is part of what the next round measures. So the factor of a half applies to the gain, and the
length follows the outcome: rounds get longer until decisions achieve half of the predicted gain, whether chance or cost
took the rest, and shorter while they do, or while nothing needs to change. They get shorter in smaller steps than
longer, because a round that is too short does harm, while one that is too long only delays.
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.balance.decisions import Measured


@dataclass(frozen=True)
class Pacing:
    """The bounds and factors of the length of rounds, in seconds. Invariant: 0 < `least` <= `most`, `shorter` < 1 <
    `longer`.

    A length set below `least` or above `most` stays until there is a reason to change it in the other direction.
    `chance` is the fraction by which the speed of a subquery varies from round to round.
    """

    least: float = 0.25
    most: float = 60.0
    shorter: float = 0.8
    longer: float = 2.0
    chance: float = 0.05

    def next_length(self, length: float, moved: bool, measured: Measured | None) -> float:
        """Return the length of the next round. `length` is that of the last one, `moved` is True if something was
        decided at its end, and `measured` is the outcome, in that round, of the decisions before it."""
        if measured is not None and not self.paid(measured):
            return min(max(self.most, length), max(self.least, self.longer * length))
        if moved and measured is None:  # the first moves after rounds without any: no outcome yet
            return length
        return max(min(self.least, length), self.shorter * length)

    def paid(self, outcome: Measured) -> bool:
        """Return whether decisions achieved half of the predicted gain; decisions with a predicted loss must not lose
        more than that."""
        promised = outcome.predicted
        return outcome.measured >= min(promised, promised / 2) - self.chance
