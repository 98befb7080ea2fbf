"""Levelling: a short list of steps after which the slowest site takes about as long as the ideal. Pure.

Greedy: in each step the slowest site gives a group to the site with the most room. The group is the one that brings the
donor closest to the ideal without making the receiver slower than the ideal. If all groups are too large for that, one
is split. Sites that hold more state than their memory give first, whatever that costs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from penstock.balance.decisions import Move, SplitGroup
from penstock.balance.move_costs import MoveCosts
from penstock.balance.rules import MOST_DEPTH
from penstock.balance.stats import FloatArray, IntArray
from penstock.state.directory import Group

MANY_KEYS = 1 / 8  # part of a group's rows: if no key has more, each half of the group has about half of the work
LIGHT_KEY = 0.1  # part of the ideal: a key with less work does not matter, whichever half it falls into
MOST_CHOICE = 2048  # groups of a donor that are considered, those with most work
FEW_MOVES = 32  # moves that should be enough to relieve a site: rather split a group than move many small ones
LEAST_GROUP = 0.01  # part of the ideal: smaller groups are not split off
FULLER = 1.1  # factor: if all sites exceed their memory, a site gives to one that holds less by at least this


@dataclass(frozen=True, eq=False)
class PlannedGroups:
    """The groups after the steps planned so far. Invariant: every array has one entry per group; the order has no
    meaning. `work` is seconds at a site of speed 1, `state` bytes, `pending` rows, `heavy` the fraction of rows that
    belong to the heaviest key. A group with `fixed` must stay at its site."""

    groups: tuple[Group, ...]
    homes: IntArray
    work: FloatArray
    state: FloatArray
    pending: FloatArray
    heavy: FloatArray
    fixed: npt.NDArray[np.bool_]

    def halved(self, place: int, fixed: bool) -> PlannedGroups:
        """Return the groups with one of them split: the first half takes its place, the second half is appended. Work,
        state and pending rows are divided evenly."""
        first, second = self.groups[place].halves
        return PlannedGroups(
            groups=(*self.groups[:place], first, *self.groups[place + 1 :], second),
            homes=np.append(self.homes, self.homes[place]),
            work=_shared(self.work, place, self.work[place] / 2),
            state=_shared(self.state, place, self.state[place] / 2),
            pending=_shared(self.pending, place, self.pending[place] / 2),
            heavy=_shared(self.heavy, place, min(1.0, 2 * self.heavy[place])),
            fixed=_shared(self.fixed, place, fixed),
        )

    def at(self, place: int, site: int) -> PlannedGroups:
        """Return the groups with the one at `place` moved to `site`, where it is fixed."""
        homes, fixed = self.homes.copy(), self.fixed.copy()
        homes[place], fixed[place] = site, True
        return replace(self, homes=homes, fixed=fixed)


def unclear(heavy: FloatArray, work: FloatArray, ideal: float) -> npt.NDArray[np.bool_]:
    """Return a mask of the groups whose halves may get very unequal work, because of a heavy key. Such halves must stay
    at their site until they are measured."""
    return (heavy > MANY_KEYS) & (heavy * work > LIGHT_KEY * ideal)


_Entries = TypeVar("_Entries", bound=np.generic)


def _shared(stats: npt.NDArray[_Entries], place: int, each: float) -> npt.NDArray[_Entries]:
    """Return the array with `each` in place of the entry at `place`, and once more at the end."""
    shared = np.append(stats, each)
    shared[place] = each
    return shared


@dataclass(frozen=True)
class PlannedChange:
    """A planned change. `slowest` is the time of the slowest site after it. It adds `price` to the cost of the plan, in
    seconds per round, and moves `state` bytes. `donor` took `before` seconds per round until then, `relief` of them for
    the group of the change. If the donor exceeds its memory and gives for that reason, `held` is the bytes that it
    held."""

    change: Move | SplitGroup
    slowest: float
    price: float
    state: int
    donor: int
    before: float
    relief: float
    held: float = 0.0


@dataclass(frozen=True)
class PlanLimits:
    """The bounds of a plan. `close` is how near to the ideal is near enough (a factor). `memory` and `capacity` bound
    the bytes of state and the pending rows of a site (0: unbounded); `groups` and `steps` bound the totals."""

    groups: int
    steps: int
    close: float = 1.02
    memory: int = 0
    capacity: int = 0


class Leveller:
    """A greedy plan under construction. Invariant: `load` is the work of each site, of its groups plus the `fixed` work
    passed in; `_state` and `_pending` are the bytes and pending rows of its groups; `steps` lead from the initial
    groups to `planned`; `_moves` of them are moves, which bring `_received` bytes to each site. `_free` caches, per
    donor since the last split, the places of the groups it may give, most work first."""

    def __init__(
        self, planned: PlannedGroups, speeds: FloatArray, prices: MoveCosts, limits: PlanLimits, fixed: FloatArray
    ) -> None:
        self.planned, self.speeds, self.limits = planned, speeds, limits
        self.steps: list[PlannedChange] = []
        self._prices = prices
        self._free: dict[int, IntArray] = {}
        work, self._state, self._pending = (
            np.bincount(planned.homes, weights=stats, minlength=len(speeds))
            for stats in (planned.work, planned.state, planned.pending)
        )
        self.load: FloatArray = work + fixed
        self.ideal = float(self.load.sum() / speeds.sum())
        self._received, self._moves = np.zeros(len(speeds)), 0

    @property
    def times(self) -> FloatArray:
        """Return the seconds per round of each site."""
        return self.load / self.speeds

    @property
    def slowest(self) -> float:
        """Return the seconds per round of the slowest site."""
        return float(self.times.max())

    @property
    def excess(self) -> float:
        """Return the work of all sites beyond the ideal, in seconds of a site of speed 1."""
        return float(np.maximum(self.load - self.ideal * self.speeds, 0.0).sum())

    @property
    def unfinished(self) -> bool:
        """Return whether the limit of steps was reached: the next round continues."""
        return len(self.steps) >= self.limits.steps

    def run(self) -> list[PlannedChange]:
        """Add steps until the slowest site is close to the ideal, or no step helps, or the limit is reached. Return
        them."""
        goal, first = self.limits.close * self.ideal, len(self.steps)
        while self.slowest > goal and not self.unfinished and self._step(int(self.times.argmax())):
            pass
        return self.steps[first:]

    def shed(self) -> list[PlannedChange]:
        """Add moves until no site holds more than its memory, or no move helps, or the limit is reached. Return
        them."""
        first = len(self.steps)
        while self.limits.memory and not self.unfinished and self._shed_from(int(self._state.argmax())):
            pass
        return self.steps[first:]

    def _shed_from(self, donor: int) -> bool:
        """Move a group away from a site that exceeds its memory: the largest up to the excess, and of equals the one
        with the least work. The receiver is the fastest site with room for it; if all are full, one that holds less.
        Returns False if there is none."""
        held, memory = float(self._state[donor]), self.limits.memory
        mine = np.flatnonzero((self.planned.homes == donor) & ~self.planned.fixed & (self.planned.state > 0))
        if held <= memory or not len(mine):
            return False
        state, excess = self.planned.state[mine], held - memory
        relief = np.minimum(state, excess) - 1e-3 * np.maximum(state - excess, 0)
        mine = mine[np.lexsort((self.planned.work[mine], -relief))]
        most = max(memory, held / FULLER)
        full = self._state + state.min() > memory
        for target in np.lexsort((np.where(full, self._state, self.times), full)):
            fits = self._has_space(target, mine) & (self._state[target] + self.planned.state[mine] <= most)
            if target != donor and fits.any():
                return self._move(int(mine[fits.argmax()]), donor, int(target), held)
        return False

    def _step(self, donor: int) -> bool:
        """Add one step that relieves the slowest site; return False if there is none."""
        mine = self._free.get(donor)
        if mine is None:
            mine = np.flatnonzero((self.planned.homes == donor) & ~self.planned.fixed & (self.planned.work > 0))
            mine = self._free[donor] = mine[np.argsort(-self.planned.work[mine], kind="stable")][:MOST_CHOICE]
        excess = float(self.load[donor] - self.ideal * self.speeds[donor])
        return (
            self._give_fitting(donor, mine, excess, excess / FEW_MOVES)
            or self._split(donor, mine, excess)
            or self._give_fitting(donor, mine, excess, 0.0)
            or self._give_any(donor, mine)
        )

    @property
    def _room(self) -> FloatArray:
        """Return the work that each site could take and still be close to the ideal."""
        return self.limits.close * self.ideal * self.speeds - self.load

    def _give_fitting(self, donor: int, mine: IntArray, excess: float, least: float) -> bool:
        """Move the group that relieves the donor most after the cost of the move. Only groups with more work than
        `least` that leave the receiver close to the ideal are considered. Whether the cost pays is not judged here:
        that depends on the other moves of the plan. Returns False if there is none."""
        work, room = self.planned.work[mine], self._room
        mine = mine[(work > least) & (work <= room.max())]
        if not len(mine):
            return False
        work = self.planned.work[mine]
        relief = (np.minimum(work, excess) - 1e-3 * np.maximum(work - excess, 0)) / self.speeds[donor]
        worth = relief - self._prices.of(self.planned.state[mine])
        for target in (int(site) for site in np.argsort(-room, kind="stable") if room[site] > 0 and site != donor):
            worths = np.where((work <= room[target]) & self._has_space(target, mine), worth, -np.inf)
            if np.isfinite(worths[best := int(worths.argmax())]):
                return self._move(int(mine[best]), donor, target)
        return False

    def _give_any(self, donor: int, mine: IntArray) -> bool:
        """Move the group after which the slower of donor and receiver is fastest. Returns False if that would not be
        faster than the donor was."""
        times, work, price = self.times, self.planned.work[mine], self._prices.of(self.planned.state[mine])
        given = times[donor] - work / self.speeds[donor]
        for target in (int(site) for site in np.argsort(times, kind="stable") if times[site] < times[donor]):
            slower = np.maximum(given, times[target] + work / self.speeds[target]) + price
            slower = np.where(self._has_space(target, mine), slower, np.inf)
            if slower.min(initial=np.inf) < times[donor]:
                return self._move(int(mine[slower.argmin()]), donor, target)
        return False

    def _has_space(self, site: int, places: IntArray) -> npt.NDArray[np.bool_]:
        """Return a mask of the groups that fit the memory and the buffer of `site`. If all are too full, a fuller site
        may give to it."""
        state, pending, space = self.planned.state[places], self.planned.pending[places], np.ones(len(places), np.bool_)
        homes = self.planned.homes[places]
        if self.limits.memory:
            after = self._state[site] + state
            space &= (state == 0) | (after <= self.limits.memory) | (after < self._state[homes])
        if self.limits.capacity:
            most = np.maximum(self.limits.capacity, self._pending[homes] - pending)
            space &= (pending == 0) | (self._pending[site] + pending <= most)
        return space

    def _split(self, donor: int, mine: IntArray, excess: float) -> bool:
        """Halve the smallest of the groups that are too large to move: its halves are the likeliest to fit. Returns
        False if there is none."""
        if len(self.planned.groups) >= self.limits.groups:
            return False
        heavy, work = self.planned.heavy[mine], self.planned.work[mine]
        parts = ~unclear(heavy, work, self.ideal) & (work * (1 - heavy) > LEAST_GROUP * self.ideal)
        large = mine[parts & (work > min(excess, self._room.max()))]
        large = np.asarray([n for n in large if self.planned.groups[n].depth < MOST_DEPTH], np.int64)
        if not len(large):
            return False
        place = int(large[self.planned.work[large].argmin()])
        self._record_split(place, donor)
        return True

    def _record_split(self, place: int, donor: int) -> None:
        before, relief = float(self.times[donor]), float(self.planned.work[place] / self.speeds[donor])
        change = SplitGroup(self.planned.groups[place])
        self.planned, self._free = self.planned.halved(place, fixed=False), {}
        self.steps.append(PlannedChange(change, self.slowest, 0.0, 0, donor, before, relief))

    def _move(self, place: int, donor: int, target: int, held: float = 0.0) -> bool:
        before, work, state = float(self.times[donor]), self.planned.work[place], self.planned.state[place]
        for at_sites, amount in ((self.load, work), (self._state, state), (self._pending, self.planned.pending[place])):
            at_sites[donor] -= amount
            at_sites[target] += amount
        change, price = Move(self.planned.groups[place], donor, target), self._price_of_move(target, state)
        self.planned = self.planned.at(place, target)
        if donor in self._free:
            self._free[donor] = self._free[donor][self._free[donor] != place]
        relief = float(work / self.speeds[donor])
        self.steps.append(PlannedChange(change, self.slowest, price, int(state), donor, before, relief, held))
        return True

    def _price_of_move(self, target: int, state: float) -> float:
        """Count a move of `state` bytes, and return what it adds to the cost of the plan."""
        before = self._prices.of_plan(self._moves, self._received)
        self._moves += 1
        self._received[target] += state
        return self._prices.of_plan(self._moves, self._received) - before


def worthwhile(steps: Sequence[PlannedChange], slowest: float) -> list[PlannedChange]:
    """Return the prefix of `steps` with the greatest net gain. `slowest` is the time of the slowest site without any
    step."""
    gained = slowest - np.asarray([slowest, *(step.slowest for step in steps)])
    paid = np.cumsum([0.0, *(step.price for step in steps)])
    return list(steps[: int(np.argmax(gained - paid))])


def begun(steps: Sequence[PlannedChange], done: float, gain: float) -> list[PlannedChange]:
    """Return the steps of a plan that is not finished if the whole plan pays: `done` is the part of it that the steps
    are, `gain` the seconds per round that it will save in the end. Several slow sites hold the others back until the
    last of them is relieved, so the first steps alone may gain nothing."""
    paid = sum(step.price for step in steps)
    return list(steps) if done > 0 and paid < done * gain else []


def within(steps: Sequence[PlannedChange], budget: int) -> list[PlannedChange]:
    """Return the first steps, up to those that move `budget` bytes of state in total (0: all). One move is always
    among them."""
    moved = np.cumsum([step.state for step in steps])
    first = int(np.argmax(moved > 0)) + 1 if len(steps) else 0
    return list(steps[: max(first, int((moved <= budget).sum()))]) if budget else list(steps)
