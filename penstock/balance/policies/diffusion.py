"""`diffusion`: a site whose buffer fills gives one group to a site whose buffer is nearly empty (window joins in a
cluster, section IV-C), and groups are kept neither too large nor too hot (section IV-D)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from penstock.balance.decisions import Change, Decision, Merge, Move, SplitGroup
from penstock.balance.declustering import BUSY, OCCUPANCY, Experience, Thresholds, degree, roles
from penstock.balance.estimate import demand
from penstock.balance.policy import Learning
from penstock.balance.stats import FloatArray, RoundStats
from penstock.balance.tuning import keeping_first, tuned
from penstock.state.directory import Group


@dataclass(frozen=True)
class Diffusion(Learning):
    """Sites are compared by the filled fraction of their buffers, under the thresholds `occupancy`; where buffers are
    unbounded, by their utilisation, under the thresholds `busy`. With `elastic` the number of sites also follows the
    load, and grows if there are more than `beta` suppliers per consumer. `theta` is the size of groups for fine tuning,
    in rows of state (None: groups are not tuned). `experience` is what earlier rounds showed about numbers of sites."""

    name: str = "diffusion"
    occupancy: Thresholds = OCCUPANCY
    busy: Thresholds = BUSY
    elastic: bool = False
    beta: float = 0.5
    theta: int | None = 1 << 20
    experience: Experience = field(default_factory=Experience)

    def decide(self, figures: RoundStats) -> Sequence[Decision]:
        """Return a change of the number of sites, or else moves from suppliers to consumers and then fine tuning."""
        thresholds = self._thresholds(figures)
        if (scale := self._degree(figures)) is not None:
            return (scale,)  # scaling reassigns groups by itself
        load = figures.occupancy if figures.capacity else figures.utilisation
        found = roles(load, thresholds)
        exchange = _Exchange(figures, load, "its buffer is {:.0%} full" if figures.capacity else "it is busy {:.0%}")
        pairs = zip(found.suppliers, exchange.fastest_first(found.consumers), strict=False)
        moves = [given for pair in pairs if (given := exchange.give(*pair)) is not None]
        return [*moves, *self._tuned(figures, moves)]

    def after(self, figures: RoundStats) -> Diffusion:
        """Record what the round showed about the number of sites."""
        return replace(self, experience=self.experience.after(figures, self._degree(figures))) if self.elastic else self

    def _degree(self, figures: RoundStats) -> Decision | None:
        return degree(figures, self._thresholds(figures), self.beta, self.experience) if self.elastic else None

    def _thresholds(self, figures: RoundStats) -> Thresholds:
        return self.occupancy if figures.capacity else self.busy

    def _tuned(self, figures: RoundStats, moves: Sequence[Decision]) -> list[Decision]:
        """Return splits and merges of groups that do not move in this round."""
        if self.theta is None:
            return []
        moving = {decision.change.group for decision in moves if isinstance(decision.change, Move)}
        made = tuned(figures, self.theta, keeping_first(figures))
        return [decision for decision in made if moving.isdisjoint(_of(decision.change))]


def _of(change: Change) -> tuple[Group, ...]:
    """Return the existing groups that a split or a merge replaces."""
    match change:
        case SplitGroup(group):
            return (group,)
        case Merge(group):
            return group.halves
        case _:
            return ()


class _Exchange:
    """Pairs suppliers with consumers and picks the group to move. Invariant: `_times` is the seconds that each site
    would take for a round and its pending rows, after the moves so far."""

    def __init__(self, figures: RoundStats, load: FloatArray, why: str) -> None:
        asked = demand(figures)
        self._figures, self._load, self._why = figures, load, why
        self._work, self._speeds = asked.work + asked.owed, asked.speeds
        self._times = figures.of_sites(self._work) / self._speeds

    def fastest_first(self, consumers: Sequence[int]) -> list[int]:
        """Sort consumers by the time they take, since nearly empty buffers do not tell them apart."""
        return sorted(consumers, key=lambda site: (self._times[site], site))

    def give(self, supplier: int, consumer: int) -> Decision | None:
        """Move one group from supplier to consumer and return the decision; None if no group makes the slower of the
        two faster."""
        place = self._chosen(supplier, consumer)
        if place is None:
            return None
        slowest = self._times.max()
        self._times[supplier] -= self._work[place] / self._speeds[supplier]
        self._times[consumer] += self._work[place] / self._speeds[consumer]
        move = Move(self._figures.directory.groups[place], supplier, consumer)
        gain = max(0.0, float(1 - self._times.max() / slowest))
        return Decision(move, self._reason(supplier, consumer), gain, int(self._figures.loads.state_bytes[place]))

    def _chosen(self, supplier: int, consumer: int) -> int | None:
        """Return the place of the group to move, or None. The paper takes any group; this takes the one after which the
        slower of the two sites is fastest, and none that would only swap their roles. Ties go to the first, so the
        choice is repeatable."""
        mine = np.flatnonzero((self._figures.homes == supplier) & (self._work > 0) & ~self._figures.stays)
        given = self._times[supplier] - self._work[mine] / self._speeds[supplier]
        taken = self._times[consumer] + self._work[mine] / self._speeds[consumer]
        slower = np.maximum(given, taken)
        useful = slower < self._times[supplier]
        return int(mine[np.argmin(np.where(useful, slower, np.inf))]) if useful.any() else None

    def _reason(self, supplier: int, consumer: int) -> str:
        supply, room = (self._why.format(self._load[site]) for site in (supplier, consumer))
        return f"site {supplier} is a supplier ({supply}), site {consumer} a consumer ({room})"
