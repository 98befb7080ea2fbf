"""`diffusion`: a site whose buffer fills gives one group to a site whose buffer is nearly empty (window joins in a
cluster, section IV-C), and groups are kept neither too large nor too hot (section IV-D). Pure.

A site with a large backlog is a supplier of groups, a site with next to none a consumer, and all others are neutral.
They also decide over how many sites a subquery is spread, the degree of declustering: without suppliers there are more
sites than needed; with too many suppliers per consumer there are too few.

The capacity of a number of sites is taken from measurement. If a number of sites was too small, the rate it reached is
recorded as its capacity, and the subquery does not return to that number until the load is well below the capacity.
Decisions based on estimates alone would remove a site and add it again by turns. After a change the number stays for
one round, in which the sites work off the backlog that the change caused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil, inf

import numpy as np

from penstock.balance.decisions import Change, Decision, Merge, Move, Scale, SplitGroup
from penstock.balance.estimate import demand
from penstock.balance.policy import Learning
from penstock.balance.stats import FloatArray, RoundStats
from penstock.balance.tuning import keeping_first, tuned
from penstock.errors import ConfigError
from penstock.state.directory import Group

FULL = 0.75  # a site is removed only if the others stay busy for at most this part of the time
BELIEVED = 0.5  # part of the factor by which rows got cheaper that is counted
EQUAL = 1e-9  # tolerance for comparing numbers
CHANGED = 1.25  # factor: a load that has grown or fallen by less counts as the same
TRIES = 2  # changes of the number of sites per load that rely on estimates; later ones rely on measured capacity only
LEFT = 0.01  # part of a round's rows that may be pending when a site is removed
REST_ROUNDS = 1  # rounds after a change in which the number of sites stays


@dataclass(frozen=True)
class Thresholds:
    """The bounds of load above which a site is a supplier and below which it is a consumer. Invariant: 0 <= consumer <
    supplier. The defaults are for the fraction of a buffer that is filled."""

    supplier: float = 0.5
    consumer: float = 0.01

    def __post_init__(self) -> None:
        if not 0 <= self.consumer < self.supplier:
            raise ConfigError(
                "a supplier must have more load than a consumer",
                detail=f"supplier above {self.supplier}, consumer below {self.consumer}",
                hint="set 0 <= consumer < supplier",
            )


OCCUPANCY = Thresholds()
BUSY = Thresholds(supplier=0.9, consumer=0.8)  # for the fraction of the time that a site is busy


@dataclass(frozen=True)
class Roles:
    """The suppliers, most loaded first, and the consumers, least loaded first. All other sites are neutral."""

    suppliers: tuple[int, ...]
    consumers: tuple[int, ...]


def roles(load: FloatArray, thresholds: Thresholds) -> Roles:
    """Classify the sites by their load; ties are ordered by site number."""
    order = [int(site) for site in np.argsort(load, kind="stable")]
    return Roles(
        suppliers=tuple(sorted((s for s in order if load[s] > thresholds.supplier), key=lambda s: (-load[s], s))),
        consumers=tuple(site for site in order if load[site] < thresholds.consumer),
    )


def pressure(stats: RoundStats) -> FloatArray:
    """Return the load of each site: the filled fraction of its buffer or, where buffers are unbounded, the fraction of
    the round that it was busy. Busy time is divided by the round and not by the share of the site, which the slowest
    site always fills."""
    return stats.occupancy if stats.capacity else _busy_part(stats)


def _busy_part(stats: RoundStats) -> FloatArray:
    """Return the fraction of the round that each site was busy."""
    return stats.busy / stats.seconds if stats.seconds > 0 else np.zeros(len(stats.busy))


@dataclass(frozen=True)
class Capacity:
    """The throughput of a number of sites when they were too few: rows per second, and the site seconds that a row
    cost."""

    rows: float
    cost: float

    def now(self, cost: float) -> float:
        """Return the rows per second that the sites could do at today's `cost` per row. Backlogs and the size of epochs
        also change the cost, so only half of the factor by which rows got cheaper counts, and a higher cost is
        ignored."""
        return self.rows * max(1.0, BELIEVED * self.cost / cost) if cost > 0 else self.rows


@dataclass(frozen=True)
class Experience:
    """The measurements of earlier rounds with different numbers of sites. `capacity` maps each number that was too
    small to its capacity. `steps` counts the successive changes in one direction (positive: up, negative: down), and
    `before` is the number of sites before the last change. `changes` counts the changes under the current load of
    `rate` rows per second, `shrinks` those downwards. The number does not change in the next `rest` rounds."""

    capacity: Mapping[int, Capacity] = field(default_factory=dict)
    steps: int = 0
    before: int = 0
    changes: int = 0
    shrinks: int = 0
    rate: float = 0.0
    rest: int = 0

    def after(self, stats: RoundStats, wanted: Decision | None) -> Experience:
        """Return the experience after a round whose decision was `wanted` (None: no change)."""
        rate = _rate(stats, stats.rows_in)
        if wanted is None or not isinstance(wanted.change, Scale):
            return replace(self, rest=self.rest - 1, rate=rate) if self.rest else self._calm(rate)
        sites = stats.directory.sites
        changed = replace(self, before=sites, changes=self.changes + 1, rate=rate, rest=REST_ROUNDS)
        if wanted.change.sites < sites:
            return replace(changed, steps=min(self.steps, 0) - 1, shrinks=self.shrinks + 1)
        seen = Capacity(_rate(stats, float(stats.done.sum())), _cost(stats))
        return replace(changed, steps=max(self.steps, 0) + 1, capacity={**self.capacity, sites: seen})

    def _calm(self, rate: float) -> Experience:
        """Return the experience after a round without a change. A load that differs by more than the factor `CHANGED`
        is a new one: the count of changes starts again."""
        same = self.rate / CHANGED <= rate <= self.rate * CHANGED
        return replace(self, steps=0) if same else replace(self, steps=0, changes=0, shrinks=0, rate=rate)

    @property
    def may_shrink(self) -> bool:
        """Return whether the number of sites may still go down under this load. Fewer sites may look less busy each
        time, so at most two changes are tried, and a third only if the first two added sites, which may have been too
        many."""
        return self.changes < TRIES or (self.changes == TRIES and not self.shrinks)

    def fewest(self, stats: RoundStats) -> int:
        """Return the least number of sites that can do the load of the round with room to spare, according to the
        capacities seen."""
        rate, cost = _rate(stats, stats.rows_in), _cost(stats)
        return max((_fewest_of(sites, seen.now(cost), rate) for sites, seen in self.capacity.items()), default=1)


def _fewest_of(sites: int, done: float, rate: float) -> int:
    """Return the number of sites needed for `rate` rows per second, given that `sites` sites could just do `done`. Up
    to `sites`, capacity is taken as proportional to the number; beyond it nothing was measured, so the answer is one
    more."""
    if done <= 0 or rate > FULL * done * (1 + EQUAL):
        return sites + 1
    return max(1, ceil(rate / (FULL * done / sites) - EQUAL))


def _cost(stats: RoundStats) -> float:
    """Return the site seconds per row over all sites; 0 if no row was processed."""
    done = float(stats.done.sum())
    return float(stats.busy.sum()) / done if done else 0.0


def _rate(stats: RoundStats, rows: float) -> float:
    """Return rows per second; infinite for a round of no length."""
    return rows / stats.seconds if stats.seconds > 0 else inf


def degree(
    stats: RoundStats, thresholds: Thresholds, beta: float, experience: Experience | None = None
) -> Decision | None:
    """Return a decision to change the number of sites to what the load asks for, or None if the number is right.

    The paper adds or removes one site at a time, which is slow to follow a load that doubles and leaves sites idle when
    one ends. Here the estimate gives the number, but a first reduction removes at most half of the sites. If there are
    still too few sites after a change, up to the allowed maximum are used, because work that was not taken in cannot be
    estimated.
    """
    known = experience or Experience()
    if known.rest:
        return None
    sites = stats.directory.sites
    found = roles(pressure(stats), thresholds)
    suppliers, consumers = len(found.suppliers), len(found.consumers)
    if suppliers > beta * consumers:
        why = f"{_counted(suppliers)} much work and {_counted(consumers)} little"
        return _scale(stats, max(sites + 1, _needed(stats), _back(stats, known)), why)
    if not suppliers and sites > 1 and known.may_shrink and _keeps_up(stats) and _others_have_room(stats):
        half = sites // 2 if known.steps >= 0 else 1
        target = max(min(_needed(stats), sites - 1), half, known.fewest(stats), stats.least_sites)
        return _scale(stats, target, "no site has much work") if target < sites else None
    return None


def _back(stats: RoundStats, known: Experience) -> int:
    """Return the number of sites that is known or likely to be enough when there are too few right after a change; 0 if
    no change came just before."""
    if known.steps > 0 or known.changes >= TRIES:
        return stats.most_sites
    return known.before if known.steps < 0 else 0


def _needed(stats: RoundStats) -> int:
    """Return how many sites could do the work of the round and the pending rows while busy for at most `FULL` of the
    time; never above the allowed maximum."""
    asked = demand(stats)
    work = max(float(asked.work.sum() + asked.owed.sum() + asked.cells.sum()), float(stats.busy.sum()))
    needed = ceil(work / (FULL * stats.seconds)) if stats.seconds > 0 else 0
    return min(needed, stats.most_sites or needed)


def _keeps_up(stats: RoundStats) -> bool:
    """Return whether next to no rows are pending: while there is a backlog, no site can be removed."""
    return int(stats.loads.pending.sum()) <= LEFT * stats.rows_in


def _others_have_room(stats: RoundStats) -> bool:
    """Return whether one site fewer could do the work. Without this check, a number of sites that is just enough, so
    that none has a backlog, would be reduced and restored by turns."""
    return float(_busy_part(stats).sum()) <= FULL * (stats.directory.sites - 1)


def _counted(sites: int) -> str:
    return "1 site has" if sites == 1 else f"{sites} sites have"


def _scale(stats: RoundStats, sites: int, why: str) -> Decision:
    """Build the decision. The gain assumes that work is divided evenly over the new number of sites (below 0 with fewer
    sites)."""
    return Decision(Scale(sites), why, 1 - stats.directory.sites / sites, _moved_bytes(stats, sites))


def _moved_bytes(stats: RoundStats, sites: int) -> int:
    """Return the bytes of state that change site. Where there are too few groups for the sites, all groups are halved
    equally often."""
    after = stats.directory.scaled(sites)
    pieces = len(after.groups) // len(stats.homes)
    moved = np.repeat(stats.homes, pieces) != np.asarray(after.homes)
    return int((np.repeat(stats.loads.state_bytes, pieces) // pieces)[moved].sum())


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

    def decide(self, stats: RoundStats) -> Sequence[Decision]:
        """Return a change of the number of sites, or else moves from suppliers to consumers and then fine tuning."""
        thresholds = self._thresholds(stats)
        if (scale := self._degree(stats)) is not None:
            return (scale,)  # scaling reassigns groups by itself
        load = stats.occupancy if stats.capacity else stats.utilisation
        found = roles(load, thresholds)
        exchange = _Exchange(stats, load, "its buffer is {:.0%} full" if stats.capacity else "it is busy {:.0%}")
        pairs = zip(found.suppliers, exchange.fastest_first(found.consumers), strict=False)
        moves = [given for pair in pairs if (given := exchange.give(*pair)) is not None]
        return [*moves, *self._tuned(stats, moves)]

    def after(self, stats: RoundStats) -> Diffusion:
        """Record what the round showed about the number of sites."""
        return replace(self, experience=self.experience.after(stats, self._degree(stats))) if self.elastic else self

    def _degree(self, stats: RoundStats) -> Decision | None:
        """Return a change of the number of sites; None if none is wanted, or more sites than are allowed: groups can
        still move then."""
        wanted = degree(stats, self._thresholds(stats), self.beta, self.experience) if self.elastic else None
        beyond = wanted is not None and isinstance(wanted.change, Scale) and 0 < stats.most_sites < wanted.change.sites
        return None if beyond else wanted

    def _thresholds(self, stats: RoundStats) -> Thresholds:
        return self.occupancy if stats.capacity else self.busy

    def _tuned(self, stats: RoundStats, moves: Sequence[Decision]) -> list[Decision]:
        """Return splits and merges of groups that do not move in this round."""
        if self.theta is None:
            return []
        moving = {decision.change.group for decision in moves if isinstance(decision.change, Move)}
        made = tuned(stats, self.theta, keeping_first(stats))
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

    def __init__(self, stats: RoundStats, load: FloatArray, why: str) -> None:
        asked = demand(stats)
        self._figures, self._load, self._why = stats, load, why
        self._work, self._speeds = asked.work + asked.owed, asked.speeds
        self._times = stats.of_sites(self._work) / self._speeds

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
