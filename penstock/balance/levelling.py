"""Levelling: a short list of steps after which the slowest site takes about as long as the ideal. Pure.

Greedy: in each step the slowest site gives a group to the site with the most room. The group is the one that brings the
donor closest to the ideal without making the receiver slower than the ideal. If all groups are too large for that, one
is split.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from penstock.balance.decisions import Move, SplitGroup
from penstock.balance.rules import MOST_DEPTH
from penstock.balance.stats import FloatArray, IntArray
from penstock.state.directory import Group

MANY_KEYS = 1 / 8  # part of a group's rows: if no key has more, each half of the group has about half of the work
LIGHT_KEY = 0.1  # part of the ideal: a key with less work does not matter, whichever half it falls into
MOST_CHOICE = 2048  # groups of a donor that are considered, those with most work
FEW_MOVES = 32  # moves that should be enough to relieve a site: rather split a group than move many small ones
LEAST_PIECE = 0.01  # part of the ideal: smaller pieces are not split off


@dataclass(frozen=True)
class MoveCosts:
    """The cost of a step, in seconds per round: moving state costs time once, and the gain lasts for `rounds`
    rounds."""

    rounds: float = 6.0
    bytes_per_second: float = 100e6
    seconds_per_move: float = 0.001

    def of(self, state: npt.NDArray[np.float64] | float) -> FloatArray:
        """Return the cost of moving `state` bytes, in seconds per round."""
        return np.asarray((self.seconds_per_move + state / self.bytes_per_second) / self.rounds)


@dataclass(frozen=True, eq=False)
class Pieces:
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

    def halved(self, place: int, fixed: bool) -> Pieces:
        """Return the pieces with one group split: the first half takes its place, the second half is appended. Work,
        state and pending rows are divided evenly."""
        first, second = self.groups[place].halves
        return Pieces(
            groups=(*self.groups[:place], first, *self.groups[place + 1 :], second),
            homes=np.append(self.homes, self.homes[place]),
            work=_shared(self.work, place, self.work[place] / 2),
            state=_shared(self.state, place, self.state[place] / 2),
            pending=_shared(self.pending, place, self.pending[place] / 2),
            heavy=_shared(self.heavy, place, min(1.0, 2 * self.heavy[place])),
            fixed=_shared(self.fixed, place, fixed),
        )

    def at(self, place: int, site: int) -> Pieces:
        """Return the pieces with the group at `place` moved to `site`, where it is fixed."""
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
class Step:
    """A planned change. `slowest` is the time of the slowest site after it. It costs `price`, in seconds per round, and
    moves `state` bytes. `donor` took `before` seconds per round until then, `relief` of them for the group of the
    change."""

    change: Move | SplitGroup
    slowest: float
    price: float
    state: int
    donor: int
    before: float
    relief: float


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
    """A greedy plan under construction. Invariant: `load` is the work of each site, of its pieces plus the `fixed` work
    passed in; `_state` and `_pending` are the bytes and pending rows of its pieces; `steps` lead from the initial
    pieces to `pieces`. `_free` caches, per donor since the last split, the places of the groups it may give, most work
    first."""

    def __init__(
        self, pieces: Pieces, speeds: FloatArray, prices: MoveCosts, limits: PlanLimits, fixed: FloatArray
    ) -> None:
        self.pieces, self.speeds, self.limits = pieces, speeds, limits
        self.steps: list[Step] = []
        self._prices = prices
        self._free: dict[int, IntArray] = {}
        work, self._state, self._pending = (
            np.bincount(pieces.homes, weights=stats, minlength=len(speeds))
            for stats in (pieces.work, pieces.state, pieces.pending)
        )
        self.load: FloatArray = work + fixed
        self.ideal = float(self.load.sum() / speeds.sum())

    @property
    def times(self) -> FloatArray:
        """Return the seconds per round of each site."""
        return self.load / self.speeds

    @property
    def slowest(self) -> float:
        """Return the seconds per round of the slowest site."""
        return float(self.times.max())

    @property
    def unfinished(self) -> bool:
        """Return whether the limit of steps was reached: the next round continues."""
        return len(self.steps) >= self.limits.steps

    def run(self) -> list[Step]:
        """Add steps until the slowest site is close to the ideal, or no step helps, or the limit is reached."""
        goal = self.limits.close * self.ideal
        while self.slowest > goal and not self.unfinished and self._step(int(self.times.argmax())):
            pass
        return self.steps

    def _step(self, donor: int) -> bool:
        """Add one step that relieves the slowest site; return False if there is none."""
        mine = self._free.get(donor)
        if mine is None:
            mine = np.flatnonzero((self.pieces.homes == donor) & ~self.pieces.fixed & (self.pieces.work > 0))
            mine = self._free[donor] = mine[np.argsort(-self.pieces.work[mine], kind="stable")][:MOST_CHOICE]
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
        `least` that leave the receiver close to the ideal are considered. Returns False if there is none."""
        work, room = self.pieces.work[mine], self._room
        mine = mine[(work > least) & (work <= room.max())]
        if not len(mine):
            return False
        work = self.pieces.work[mine]
        relief = (np.minimum(work, excess) - 1e-3 * np.maximum(work - excess, 0)) / self.speeds[donor]
        worth = relief - self._prices.of(self.pieces.state[mine])
        for target in (int(site) for site in np.argsort(-room, kind="stable") if room[site] > 0 and site != donor):
            worths = np.where((work <= room[target]) & self._has_space(target, mine), worth, 0.0)
            if worths[best := int(worths.argmax())] > 0:
                return self._move(int(mine[best]), donor, target)
        return False

    def _give_any(self, donor: int, mine: IntArray) -> bool:
        """Move the group after which the slower of donor and receiver is fastest. Returns False if that would not be
        faster than the donor was."""
        others = np.where(np.arange(len(self.speeds)) == donor, np.inf, self.times)
        target = int(others.argmin())
        if target == donor or not len(mine):
            return False
        work, price = self.pieces.work[mine], self._prices.of(self.pieces.state[mine])
        slower = np.maximum(self.times[donor] - work / self.speeds[donor], others[target] + work / self.speeds[target])
        slower = np.where(self._has_space(target, mine), slower + price, np.inf)
        return bool(slower.min() < self.times[donor]) and self._move(int(mine[slower.argmin()]), donor, target)

    def _has_space(self, site: int, places: IntArray) -> npt.NDArray[np.bool_]:
        """Return a mask of the groups that fit the memory and the buffer of `site`. If all buffers are too full, a
        fuller site may give to it."""
        state, pending, space = self.pieces.state[places], self.pieces.pending[places], np.ones(len(places), np.bool_)
        if self.limits.memory:
            space &= (state == 0) | (self._state[site] + state <= self.limits.memory)
        if self.limits.capacity:
            most = np.maximum(self.limits.capacity, self._pending[self.pieces.homes[places]] - pending)
            space &= (pending == 0) | (self._pending[site] + pending <= most)
        return space

    def _split(self, donor: int, mine: IntArray, excess: float) -> bool:
        """Halve the smallest of the groups that are too large to move: its halves are the likeliest to fit. Returns
        False if there is none."""
        if len(self.pieces.groups) >= self.limits.groups:
            return False
        heavy, work = self.pieces.heavy[mine], self.pieces.work[mine]
        parts = ~unclear(heavy, work, self.ideal) & (work * (1 - heavy) > LEAST_PIECE * self.ideal)
        large = mine[parts & (work > min(excess, self._room.max()))]
        large = np.asarray([n for n in large if self.pieces.groups[n].depth < MOST_DEPTH], np.int64)
        if not len(large):
            return False
        place = int(large[self.pieces.work[large].argmin()])
        self._record_split(place, donor)
        return True

    def _record_split(self, place: int, donor: int) -> None:
        before, relief = float(self.times[donor]), float(self.pieces.work[place] / self.speeds[donor])
        change = SplitGroup(self.pieces.groups[place])
        self.pieces, self._free = self.pieces.halved(place, fixed=False), {}
        self.steps.append(Step(change, self.slowest, 0.0, 0, donor, before, relief))

    def _move(self, place: int, donor: int, target: int) -> bool:
        before, work, state = float(self.times[donor]), self.pieces.work[place], self.pieces.state[place]
        for at_sites, amount in ((self.load, work), (self._state, state), (self._pending, self.pieces.pending[place])):
            at_sites[donor] -= amount
            at_sites[target] += amount
        change, price = Move(self.pieces.groups[place], donor, target), float(self._prices.of(state))
        self.pieces = self.pieces.at(place, target)
        self._free[donor] = self._free[donor][self._free[donor] != place]
        relief = float(work / self.speeds[donor])
        self.steps.append(Step(change, self.slowest, price, int(state), donor, before, relief))
        return True


def worthwhile(steps: Sequence[Step], slowest: float) -> list[Step]:
    """Return the prefix of `steps` with the greatest net gain. `slowest` is the time of the slowest site without any
    step."""
    gained = slowest - np.asarray([slowest, *(step.slowest for step in steps)])
    paid = np.cumsum([0.0, *(step.price for step in steps)])
    return list(steps[: int(np.argmax(gained - paid))])
