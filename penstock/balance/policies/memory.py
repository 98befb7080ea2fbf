"""`memory`: the site with the most state gives a group to the site with the least, the second to the second, and so on
(Flux, section 6.1)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from penstock.balance.decisions import Decision, Measured
from penstock.balance.overflow import Overflow
from penstock.balance.policies.pacing import Pacing
from penstock.balance.policies.pairing import Pick, decisions, largest, pairs
from penstock.balance.policy import Paced
from penstock.balance.sizes import full_reason, written
from penstock.balance.stats import FloatArray, RoundStats


@dataclass(frozen=True)
class Memory(Paced):
    """A pair is considered if the donor holds at least the mean and at least `imbalance` times as much as the receiver,
    or if the donor exceeds its memory and the receiver does not. The first pair that fails this ends the round. Of each
    pair at most one group moves: the largest of those that bring the two sites closer together. How busy the receiver
    is does not matter. If no move helps, sites that exceed their memory park state, as `overflow` says."""

    imbalance: float = 1.2
    overflow: Overflow = field(default_factory=Overflow)
    pacing: Pacing = field(default_factory=Pacing)
    name: str = "memory"

    def decide(self, stats: RoundStats) -> Sequence[Decision]:
        return decisions(stats, self._picks(stats)) or self.overflow.decide(stats)

    def next_round(self, length: float, moved: bool, measured: Measured | None) -> float:
        return self.pacing.next_length(length, moved, measured)

    def _picks(self, stats: RoundStats) -> Iterator[Pick]:
        held = stats.held
        for donor, receiver in pairs(held):
            if not self._considers(held, donor, receiver, stats.memory):
                return
            if (place := _group_to_move(stats, held, donor, receiver)) is not None:
                yield Pick(place, receiver, _reason(held, donor, receiver, stats.memory))

    def _considers(self, held: FloatArray, donor: int, receiver: int, memory: int) -> bool:
        most, least = held[donor], held[receiver]
        overflows = 0 < memory < most and least < memory
        return bool(overflows or (most >= held.mean() and most >= self.imbalance * least))


def _group_to_move(stats: RoundStats, held: FloatArray, donor: int, receiver: int) -> int | None:
    """Return the place of the donor's largest group that brings both sites closer together; None if there is none.
    Groups that fit the receiver's memory are preferred; if none fits, a move still balances how much state the sites
    hold beyond their memory."""
    places = np.flatnonzero((stats.homes == donor) & ~stats.stays)
    sizes = stats.loads.state_bytes[places]
    gap = held[donor] - held[receiver]
    closer = np.abs(gap - 2 * sizes) < gap
    fits = closer & (sizes <= stats.memory - held[receiver])
    choice = largest(sizes, fits if stats.memory and fits.any() else closer)
    return None if choice is None else int(places[choice])


def _reason(held: FloatArray, donor: int, receiver: int, memory: int) -> str:
    return f"{full_reason(donor, held[donor], memory)}, site {receiver} {written(held[receiver])}"
