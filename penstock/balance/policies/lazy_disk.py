"""`lazy-disk`: levels state between sites, and parks only what exceeds the memory of a site nevertheless (D-Cape,
sections 5 and 6)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from penstock.balance.decisions import Decision, Move
from penstock.balance.overflow import Overflow
from penstock.balance.policies.pairing import Pick, decisions, pairs, sites_in
from penstock.balance.policy import Learning
from penstock.balance.sizes import full_reason, written
from penstock.balance.stats import FloatArray, RoundStats


@dataclass(frozen=True)
class RecentPair:
    """Two sites between which state moved. Nothing moves between them in the next `seconds`, counted from the beginning
    of the round."""

    sites: frozenset[int]
    seconds: float


@dataclass(frozen=True)
class LazyDisk(Learning):
    """The site with the most active state gives to the site with the least, the second to the second, and so on, while
    the receiver holds less than `balanced` of what the giver holds (theta_d in the paper): half of the difference, the
    groups with the highest productivity first. Between two moves of a pair are at least `span` seconds (tau_m). A site
    that neither gives nor receives parks and cleans up by itself, as `overflow` says. `recent` are the pairs that have
    to wait."""

    balanced: float = 0.8
    span: float = 45.0
    overflow: Overflow = field(default_factory=Overflow)
    recent: tuple[RecentPair, ...] = ()
    name: str = "lazy-disk"

    def decide(self, stats: RoundStats) -> Sequence[Decision]:
        made = self.moves(stats)
        return [*made, *self.overflow.decide(stats, moving=sites_in(made))]

    def after(self, stats: RoundStats) -> LazyDisk:
        moved = {frozenset((made.change.source, made.change.target)) for made in self.moves(stats)
                 if isinstance(made.change, Move)}  # fmt: skip
        passed = _seconds(stats)
        waiting = [replace(pair, seconds=pair.seconds - passed) for pair in self.recent if pair.seconds > passed]
        return replace(self, recent=(*waiting, *(RecentPair(pair, self.span) for pair in moved)))

    def is_level(self, stats: RoundStats) -> bool:
        """Return whether no site holds much less than another."""
        return bool(stats.held.min() >= self.balanced * stats.held.max())

    def moves(self, stats: RoundStats) -> tuple[Decision, ...]:
        """Return the moves between pairs of sites, within the budget of a round."""
        return decisions(stats, _within(stats, self._picks(stats)))

    def _picks(self, stats: RoundStats) -> Iterator[Pick]:
        waiting = {pair.sites for pair in self.recent if pair.seconds > _seconds(stats)}
        for donor, receiver in pairs(stats.held):
            if stats.held[receiver] >= self.balanced * stats.held[donor]:
                return
            if frozenset((donor, receiver)) not in waiting:
                yield from _given(stats, donor, receiver)


def _seconds(stats: RoundStats) -> float:
    """Return the length of the round."""
    return stats.seconds + stats.rested


def _given(stats: RoundStats, donor: int, receiver: int) -> Iterator[Pick]:
    """Yield the donor's groups that half of the difference has room for, and the memory of the receiver."""
    room = _half(stats.held, donor, receiver)
    if stats.memory:
        room = min(room, stats.memory - stats.held[receiver])
    state = stats.loads.state_bytes
    mine = np.flatnonzero((stats.homes == donor) & ~stats.stays & (state > 0))
    reason = f"{full_reason(donor, stats.held[donor], stats.memory)}, site {receiver} {written(stats.held[receiver])}"
    for place in mine[np.argsort(-stats.productivity[mine], kind="stable")]:
        if state[place] <= room:
            room -= state[place]
            yield Pick(int(place), receiver, reason)


def _half(held: FloatArray, donor: int, receiver: int) -> float:
    return float(held[donor] - held[receiver]) / 2


def _within(stats: RoundStats, picks: Iterator[Pick]) -> Iterator[Pick]:
    """Yield picks until they are more bytes than may move in a round (0: all). One is always among them."""
    moved = 0
    for pick in picks:
        moved += int(stats.loads.state_bytes[pick.place])
        if stats.budget and moved > stats.budget and moved > stats.loads.state_bytes[pick.place]:
            return
        yield pick
