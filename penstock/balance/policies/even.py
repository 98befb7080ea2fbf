"""`even`: every site does work in proportion to its speed, and holds no more state than its memory. The default policy.

From one round it estimates the work of every group and the speed of every site, and plans a few steps that bring the
slowest site close to the ideal. It applies only what pays: the time saved over some rounds must exceed the time to move
state, and the gain must exceed the noise of the measurement, so that groups do not move back and forth. A plan that is
too long for one round is judged as a whole. A site that exceeds its memory gives state away whether that saves time or
not; if no site can take it, it parks some. Hot keys are acted on at once. A slow site is acted on gradually: a
disturbance may be over before a move helps, and buffers absorb it. A key that is too much for any one site is spread
over several while it is that hot.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import ceil, sqrt

import numpy as np

from penstock.balance.decisions import Decision, Gather, SplitGroup, Spread
from penstock.balance.estimate import NOISE_ROWS, Demand, demand
from penstock.balance.keys import KeyLoad
from penstock.balance.levelling import (
    Leveller,
    PlanLimits,
    PlannedChange,
    PlannedGroups,
    begun,
    unclear,
    within,
    worthwhile,
)
from penstock.balance.move_costs import MoveCosts
from penstock.balance.overflow import Overflow
from penstock.balance.policies.pairing import sites_in
from penstock.balance.policy import Learning
from penstock.balance.rules import MOST_DEPTH
from penstock.balance.sizes import full_reason
from penstock.balance.stats import FloatArray, RoundStats
from penstock.balance.tuning import (
    BOUNDS,
    CROWDED,
    WORTH_PARTING,
    TuningBounds,
    heavy_part,
    keeping_first,
    mergeable,
    too_hot,
    too_large,
)
from penstock.state.directory import Group

NOISE = 3.0  # standard deviations of a row count (its root) that a gain must exceed
EPOCH_NOISE = 0.1  # part of a site's time in one epoch that varies: items cut by the deadline, load on the machine
MOST_LOOKS = 8  # groups per round that are split only to measure their halves
HOT_KEY = 1.0  # part of a site's mean work: a key with more is spread
COLD_KEY = 0.5  # a key that would have less at one site is gathered; the gap keeps it from going back and forth
CELL = 0.5  # part of a site's mean work that a cell should have, so that groups fit beside it
MOST_SPREAD_KEYS = 16  # keys that are spread at the same time


@dataclass(frozen=True)
class Even(Learning):
    """`least_gain` is the fraction by which the slowest site must get faster for any change. `theta` limits the rows of
    state per group, so that a group can be moved in reasonable time; `moves` limits the steps of a round, per site.
    Small buddies are merged only above `crowded` groups per site. `speeds` is a moving average of the speed of sites
    (empty: all equal), and `inertia` the weight of its past."""

    name: str = "even"
    least_gain: float = 0.05
    theta: int = 1 << 20
    moves: int = 16
    crowded: int = CROWDED
    prices: MoveCosts = field(default_factory=MoveCosts)
    bounds: TuningBounds = BOUNDS
    inertia: float = 0.5
    overflow: Overflow = field(default_factory=Overflow)
    speeds: tuple[float, ...] = ()

    def decide(self, stats: RoundStats) -> Sequence[Decision]:
        """Return spreads of hot keys, or else gathers of keys that cooled down and changes of groups."""
        asked = self._asked(stats)
        if hot := spreads(stats, asked, self.least_gain):
            return hot  # groups are levelled once the effect of the spread is measured
        made = self._of_groups(stats, asked)
        return [*gathers(stats, asked), *self._of_overflow(stats, made), *made]

    def _of_overflow(self, stats: RoundStats, made: Sequence[Decision]) -> Sequence[Decision]:
        """Return parks and clean-ups at sites that give and receive nothing. While a move relieves a full site, nothing
        is parked."""
        moving = sites_in(made)
        relieved = any(self.overflow.overflows(stats, site) for site in moving)
        return [] if relieved else self.overflow.decide(stats, moving)

    def _of_groups(self, stats: RoundStats, asked: Demand) -> Sequence[Decision]:
        """Return splits and moves if the sites are uneven or full; otherwise splits of large groups, or merges."""
        large = too_large(stats, self.theta, self.bounds)
        if not self._uneven(stats, asked) and not _full(stats):
            return large or mergeable(stats, asked, self.theta, keeping_first(stats, self.bounds, self.crowded))
        splits = {_group(decision): decision for decision in (*too_hot(stats, asked, self.bounds), *large)}
        return [*splits.values(), *self._evened(stats, asked, set(splits))]

    def after(self, stats: RoundStats) -> Even:
        return replace(self, speeds=tuple(self._speeds(demand(stats)).tolist()))

    def _speeds(self, asked: Demand) -> FloatArray:
        """Return the speed of sites: the moving average with the round's estimate."""
        known = self.speeds if len(self.speeds) == len(asked.speeds) else np.ones(len(asked.speeds))
        return np.asarray(self.inertia * np.asarray(known) + (1 - self.inertia) * asked.speeds)

    def _asked(self, stats: RoundStats) -> Demand:
        """Return the demand of a round, with pending rows to be worked off over `prices.rounds` rounds."""
        asked = demand(stats)
        return replace(asked, work=asked.work + asked.owed / self.prices.rounds, speeds=self._speeds(asked))

    def _uneven(self, stats: RoundStats, asked: Demand) -> bool:
        """Return whether perfect levelling would gain enough."""
        times = asked.of_sites(stats) / asked.speeds
        return _gain(stats, float(times.max()), asked.ideal) > self._enough(stats, int(times.argmax()))

    def _enough(self, stats: RoundStats, slowest: int) -> float:
        """Return the least gain that is worth a change. With few rows or few epochs, the slowest site may be so by
        chance."""
        rows = float(stats.of_sites(stats.loads.rows)[slowest])
        return max(self.least_gain, NOISE / sqrt(max(rows, 1.0)), EPOCH_NOISE / sqrt(stats.epochs))

    def _evened(self, stats: RoundStats, asked: Demand, split: set[Group]) -> list[Decision]:
        """Return the planned steps that relieve memory or pay, and splits of groups at a site that stays slow. `split`
        are the groups that are split already."""
        planned = _planned_groups(stats, asked, split)
        plan = Leveller(planned, asked.speeds, self._prices(stats), self._limits(stats), asked.cells.sum(axis=0))
        before, enough = plan.slowest, self._enough(stats, int(plan.times.argmax()))
        steps = within([*plan.shed(), *_levelling(stats, plan, enough)], stats.budget)
        made = _decisions(steps, before, plan.ideal, stats.memory)
        if _gain(stats, plan.slowest, plan.ideal) <= enough:
            return made
        taken = split | {step.change.group for step in steps}
        room = max(0, plan.limits.groups - len(plan.planned.groups))
        return [*made, *_look_closer(stats, asked, int(plan.times.argmax()), taken)[:room]]

    def _prices(self, stats: RoundStats) -> MoveCosts:
        """Return the cost of moves on this deployment, per round of the length that was measured: the rest of the round
        brings as much gain, without statistics."""
        length = 1 + stats.rested / stats.seconds if stats.seconds > 0 else 1.0
        return replace(self.prices, rounds=length * self.prices.rounds, seconds_per_byte=stats.seconds_per_byte)

    def _limits(self, stats: RoundStats) -> PlanLimits:
        sites = stats.directory.sites
        return PlanLimits(self.bounds.hot * sites, self.moves * sites, memory=stats.memory, capacity=stats.capacity)


def _full(stats: RoundStats) -> bool:
    """Return whether a site holds more than its memory."""
    return bool(stats.memory) and float(stats.held.max()) > stats.memory


def _levelling(stats: RoundStats, plan: Leveller, enough: float) -> list[PlannedChange]:
    """Return the steps of a plan that make the slowest site faster by at least the fraction `enough` and pay."""
    before, excess = plan.slowest, plan.excess
    steps = plan.run()
    if plan.unfinished:
        return begun(steps, 1 - plan.excess / excess if excess else 0.0, before - plan.ideal)
    steps = worthwhile(steps, before)
    return steps if steps and _gain(stats, before, steps[-1].slowest) >= enough else []


def _gain(stats: RoundStats, before: float, after: float) -> float:
    """Return the fraction of its time that the slowest site saves. If different sites are the slowest in different
    epochs, the share of a round exceeds the time of any site, and levelling the sums saves a smaller fraction."""
    whole = max(before, float(stats.share.max(initial=0.0)))
    return (before - after) / whole if whole > 0 else 0.0


def _planned_groups(stats: RoundStats, asked: Demand, split: set[Group]) -> PlannedGroups:
    """Return the groups of the round as a plan begins with them, with the groups of `split` halved."""
    planned = PlannedGroups(
        groups=stats.directory.groups,
        homes=stats.homes,
        work=asked.work,
        state=stats.loads.state_bytes.astype(np.float64),
        pending=stats.loads.pending.astype(np.float64),
        heavy=heavy_part(stats),
        fixed=stats.stays,
    )
    stay = stats.stays | unclear(planned.heavy, planned.work, asked.ideal)
    for place in sorted(stats.directory.place(group) for group in split):
        planned = planned.halved(place, fixed=bool(stay[place]))  # leaves all other groups in their places
    return planned


def _group(decision: Decision) -> Group:
    assert isinstance(decision.change, SplitGroup)
    return decision.change.group


def _decisions(steps: Sequence[PlannedChange], slowest: float, ideal: float, memory: int) -> list[Decision]:
    """Turn steps into decisions, each with its gain over the step before."""
    made = []
    for step in steps:
        gain = max(0.0, 1 - step.slowest / slowest) if slowest else 0.0  # without work, only state is levelled
        reason = full_reason(step.donor, step.held, memory) if step.held else _reason(step, ideal)
        made.append(Decision(step.change, reason, gain, step.state))
        slowest = step.slowest
    return made


def _reason(step: PlannedChange, ideal: float) -> str:
    site = f"site {step.donor} takes {step.before:.3g} s a round, {ideal:.3g} s would be balanced"
    if isinstance(step.change, SplitGroup):
        return f"{site}; a group of {step.relief:.2g} s is too large to move"
    return f"{site}; this group takes {step.relief:.2g} s"


def _look_closer(stats: RoundStats, asked: Demand, site: int, taken: set[Group]) -> list[Decision]:
    """Return splits of groups at a slow site whose work may mostly be of one heavy key, those with most work first. The
    next round measures which half has the work."""
    heavy = heavy_part(stats)
    worth = unclear(heavy, asked.work, asked.ideal) & (asked.work * (1 - heavy) > WORTH_PARTING * asked.ideal)
    places = np.flatnonzero(worth & (stats.homes == site))
    groups = [stats.directory.groups[n] for n in places[np.argsort(-asked.work[places], kind="stable")]]
    wanted = [group for group in groups if group not in taken and group.depth < MOST_DEPTH][:MOST_LOOKS]
    return [
        Decision(SplitGroup(group), f"site {site} stays slow, and this group is much of its work") for group in wanted
    ]


def spreads(stats: RoundStats, asked: Demand, least_gain: float) -> list[Decision]:
    """Return spreads of keys with more work than a site should have, the hottest first, where the gain exceeds
    `least_gain`."""
    directory = stats.directory
    if directory.sites < 2 or not stats.may_cut or asked.ideal <= 0:
        return []
    work = {key: _work(stats, asked, key) for key in stats.keys if directory.cells_at(key.hash) is None}
    hot = [key for key, part in work.items() if part > HOT_KEY * asked.ideal and key.total > NOISE_ROWS]
    hot = sorted(hot, key=lambda key: -work[key])[: max(0, MOST_SPREAD_KEYS - len(directory.spread))]
    made = [_spread(stats, asked, key, work[key]) for key in hot]
    return [decision for decision in made if decision.gain > least_gain]


def _work(stats: RoundStats, asked: Demand, key: KeyLoad) -> float:
    """Return the work of a key: the part of its group's work that corresponds to its rows."""
    place = stats.directory.place_at(key.hash)
    return float(asked.work[place]) * min(1.0, key.total / max(1, int(stats.loads.rows[place])))


def _spread(stats: RoundStats, asked: Demand, key: KeyLoad, work: float) -> Decision:
    """Return the decision to spread a key. The port with the most rows is cut. The key's site keeps a cell with the
    state; the other cells go to the least loaded sites."""
    sites, home = stats.directory.sites, stats.directory.home_at(key.hash)
    cut = max(stats.may_cut, key=lambda port: key.rows[port])
    count = min(sites, max(2, ceil(work / (CELL * asked.ideal))))
    load = asked.of_sites(stats)
    others = [int(site) for site in np.argsort(load / asked.speeds, kind="stable") if site != home]
    cells = (home, *others[: count - 1])
    before = float((load / asked.speeds).max())
    load[home] -= work
    load[list(cells)] += work * (key.rows[cut] / count + key.total - key.rows[cut]) / key.total
    gain = 1 - float((load / asked.speeds).max()) / before
    reason = f"this key has {work / asked.ideal:.0%} of the mean work of a site"
    return Decision(Spread(key.hash, cut, cells), reason, max(0.0, gain))


def gathers(stats: RoundStats, asked: Demand) -> list[Decision]:
    """Return gathers of keys that one site could do again. With hardly any rows all keys look cold, so such a round
    gives none."""
    cells, sites = stats.cells, stats.directory.sites
    if stats.rows_in < NOISE_ROWS * sites:
        return []
    made = []
    for number, known in enumerate(stats.directory.spread):
        cut, copied = int(cells.cut[number].sum()), int(cells.copied[number].max())
        there = max(1, cut + len(known.sites) * copied)
        work = float(asked.cells[number].sum()) * (cut + copied) / there
        if work < COLD_KEY * asked.ideal and not known.gathering:
            reason = f"this key has {work / asked.ideal:.0%} of the mean work of a site"
            made.append(Decision(Gather(known.hash), reason))
    return made
