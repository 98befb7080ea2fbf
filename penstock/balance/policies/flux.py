"""`flux`: the busiest site gives a group to the idlest, the second busiest to the second idlest, and so on (Flux,
section 5.3)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from penstock.balance.decisions import Decision, Measured
from penstock.balance.policies.pacing import Pacing
from penstock.balance.policies.pairing import Pick, decisions, largest, pairs
from penstock.balance.policy import Paced
from penstock.balance.stats import FloatArray, RoundStats

# Moving a group that is nearly all the work of a pair would swap the two sites. Its apparent gain is chance, and the
# group would move back in the next round. So the receiver may end up ahead by at most this part of the difference.
SWAPPED = 0.95


@dataclass(frozen=True)
class Flux(Paced):
    """A pair is considered if the donor is at least as busy as the mean and at least `imbalance` times as busy as the
    receiver, and the receiver is not busier than `busiest_receiver` (th_imb and th_util in the paper). The first pair
    that fails this ends the round. Of each pair at most one group moves: the one with the most rows among those that
    bring the two sites closer together."""

    imbalance: float = 1.2
    busiest_receiver: float = 0.9
    pacing: Pacing = field(default_factory=Pacing)
    name: str = "flux"

    def decide(self, stats: RoundStats) -> Sequence[Decision]:
        return self.decide_within(stats, np.full(stats.directory.sites, np.inf))

    def decide_within(self, stats: RoundStats, room: FloatArray) -> Sequence[Decision]:
        """Decide where each site has `room` bytes left for more state."""
        if not stats.share.all():  # a site without a share was not idle either: such a round says nothing
            return ()
        return decisions(stats, self._picks(stats, room))

    def next_round(self, length: float, moved: bool, measured: Measured | None) -> float:
        return self.pacing.next_length(length, moved, measured)

    def _picks(self, stats: RoundStats, room: FloatArray) -> Iterator[Pick]:
        used = stats.utilisation
        for donor, receiver in pairs(used, room >= _smallest(stats)):
            if not self._considers(used, donor, receiver):
                return
            if (place := _group_to_move(stats, donor, receiver, room[receiver])) is not None:
                yield Pick(place, receiver, _reason(used, donor, receiver))

    def _considers(self, used: FloatArray, donor: int, receiver: int) -> bool:
        giving, taking = used[donor], used[receiver]
        unequal = giving >= used.mean() and giving >= self.imbalance * taking
        return bool(unequal and taking <= self.busiest_receiver)


def _smallest(stats: RoundStats) -> float:
    """Return the bytes of the smallest group that could move because of its work. A site without room for it must not
    be the only partner of a busy one: with little state it has little work, so it would be so for good."""
    work = (stats.loads.rows > 0) & ~stats.stays
    return float(stats.loads.state_bytes[work].min(initial=np.iinfo(np.int64).max))


def _group_to_move(stats: RoundStats, donor: int, receiver: int, room: float) -> int | None:
    """Return the place of the donor's group with the most rows that brings both sites closer together and fits the
    receiver's room; None if there is none."""
    giving, taking = stats.utilisation[donor], stats.utilisation[receiver]
    places = np.flatnonzero(stats.homes == donor)
    rows = stats.loads.rows[places]
    left = giving * (1 - rows / max(1, rows.sum()))
    grown = taking + rows / (stats.speeds[receiver] * stats.share[receiver])
    closer = (rows > 0) & (grown - left < SWAPPED * (giving - taking))
    # A slow receiver could get closer to the donor and yet end up busier than the donor is now: no gain.
    bearable = grown <= min(1.0, giving)
    fits = (stats.loads.state_bytes[places] <= room) & ~stats.stays[places]
    choice = largest(rows, closer & bearable & fits)
    return None if choice is None else int(places[choice])


def _reason(used: FloatArray, donor: int, receiver: int) -> str:
    return f"site {donor} is busy {100 * used[donor]:.0f} % of the time, site {receiver} {100 * used[receiver]:.0f} %"
