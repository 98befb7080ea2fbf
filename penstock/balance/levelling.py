"""Evening out: few steps after which the slowest site takes about as long as the ideal. Pure.

Step by step, the slowest site gives the group that brings it closest to the ideal to the site with the most room, which
must not get slower than the ideal by that. Where all its groups are too large for that, one is split.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from penstock.balance.decisions import Move, Split
from penstock.balance.rules import MOST_DEPTH
from penstock.balance.stats import Counts, Figures
from penstock.state.directory import Group

MANY_KEYS = 1 / 8  # of the rows: where no key has more, halves of a group have about half of its work each
LIGHT_KEY = 0.1  # of the ideal: it does not matter much which half such a key is in
MOST_CHOICE = 2048  # groups of a site: of more, the ones with most work are looked at
FEW_MOVES = 32  # that should do for what a site has too much: a group is rather split than so many small ones moved
LEAST_PIECE = 0.01  # of the ideal: what is smaller is not split


@dataclass(frozen=True)
class Prices:
    """What a step costs, in seconds of a round: moving state takes time once, and pays over `rounds` rounds."""

    rounds: float = 6.0
    bytes_per_second: float = 100e6
    seconds_per_move: float = 0.001

    def of(self, state: npt.NDArray[np.float64] | float) -> Figures:
        return np.asarray((self.seconds_per_move + state / self.bytes_per_second) / self.rounds)


@dataclass(frozen=True, eq=False)
class Pieces:
    """Groups as they would be. Invariant: one entry per group in each; the order is of no meaning. `work` is seconds at
    a site of speed 1; `heavy` the part of the rows that are of one key; `fixed`: it stays where it is."""

    groups: tuple[Group, ...]
    homes: Counts
    work: Figures
    state: Figures
    pending: Figures
    heavy: Figures
    fixed: npt.NDArray[np.bool_]

    def halved(self, place: int, fixed: bool) -> Pieces:
        """With the halves of a group, one in its place and one at the end."""
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
        """With a group at another site, where it stays."""
        homes, fixed = self.homes.copy(), self.fixed.copy()
        homes[place], fixed[place] = site, True
        return replace(self, homes=homes, fixed=fixed)


def unclear(heavy: Figures, work: Figures, ideal: float) -> npt.NDArray[np.bool_]:
    """Of which groups nobody knows how much goes with which half, until halves are measured: so these must stay."""
    return (heavy > MANY_KEYS) & (heavy * work > LIGHT_KEY * ideal)


_Entries = TypeVar("_Entries", bound=np.generic)


def _shared(figures: npt.NDArray[_Entries], place: int, each: float) -> npt.NDArray[_Entries]:
    shared = np.append(figures, each)
    shared[place] = each
    return shared


@dataclass(frozen=True)
class Step:
    """A change, how long the slowest site takes after it, and what it costs, in seconds of a round and in bytes of
    state. `donor` took `before` seconds until then, `relief` of them for this group."""

    change: Move | Split
    slowest: float
    price: float
    state: int
    donor: int
    before: float
    relief: float


@dataclass(frozen=True)
class Limits:
    """`close`: how near to the ideal is near enough. `memory` and `capacity` bound the bytes of state and the pending
    rows of a site (0: no bound); `groups` and `steps` what there may be in all."""

    groups: int
    steps: int
    close: float = 1.02
    memory: int = 0
    capacity: int = 0


class Evening:
    """Invariant: `load` is the work of the pieces at each site and what is `fixed` there, `_state` and `_pending` are
    what else the pieces have there, and `steps` are what made them of those at first. `_free` has those of a site that
    could be given away, for sites that were asked since the last split."""

    def __init__(self, pieces: Pieces, speeds: Figures, prices: Prices, limits: Limits, fixed: Figures) -> None:
        self.pieces, self.speeds, self.limits = pieces, speeds, limits
        self.steps: list[Step] = []
        self._prices = prices
        self._free: dict[int, Counts] = {}
        work, self._state, self._pending = (
            np.bincount(pieces.homes, weights=figures, minlength=len(speeds))
            for figures in (pieces.work, pieces.state, pieces.pending)
        )
        self.load: Figures = work + fixed
        self.ideal = float(self.load.sum() / speeds.sum())

    @property
    def times(self) -> Figures:
        return self.load / self.speeds

    @property
    def slowest(self) -> float:
        return float(self.times.max())

    @property
    def unfinished(self) -> bool:
        """Whether there was more to do than a round may: the next one goes on."""
        return len(self.steps) >= self.limits.steps

    def run(self) -> list[Step]:
        goal = self.limits.close * self.ideal
        while self.slowest > goal and not self.unfinished and self._step(int(self.times.argmax())):
            pass
        return self.steps

    def _step(self, donor: int) -> bool:
        """Whether there was anything to do for the slowest site."""
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
    def _room(self) -> Figures:
        """The work that each site could take and be close to the ideal."""
        return self.limits.close * self.ideal * self.speeds - self.load

    def _give_fitting(self, donor: int, mine: Counts, excess: float, least: float) -> bool:
        """What takes most off the slowest site, of the groups with more than the least work that leave the receiver
        close to the ideal."""
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

    def _give_any(self, donor: int, mine: Counts) -> bool:
        """What leaves the slower of giver and receiver fastest, if it is faster than the giver was."""
        others = np.where(np.arange(len(self.speeds)) == donor, np.inf, self.times)
        target = int(others.argmin())
        if target == donor or not len(mine):
            return False
        work, price = self.pieces.work[mine], self._prices.of(self.pieces.state[mine])
        slower = np.maximum(self.times[donor] - work / self.speeds[donor], others[target] + work / self.speeds[target])
        slower = np.where(self._has_space(target, mine), slower + price, np.inf)
        return bool(slower.min() < self.times[donor]) and self._move(int(mine[slower.argmin()]), donor, target)

    def _has_space(self, site: int, places: Counts) -> npt.NDArray[np.bool_]:
        """Which groups a site has the memory and the buffer for. Where all buffers are too full, a fuller one may give
        to it."""
        state, pending, space = self.pieces.state[places], self.pieces.pending[places], np.ones(len(places), np.bool_)
        if self.limits.memory:
            space &= (state == 0) | (self._state[site] + state <= self.limits.memory)
        if self.limits.capacity:
            most = np.maximum(self.limits.capacity, self._pending[self.pieces.homes[places]] - pending)
            space &= (pending == 0) | (self._pending[site] + pending <= most)
        return space

    def _split(self, donor: int, mine: Counts, excess: float) -> bool:
        """Halve the smallest group that is too large to be given, for its halves are the likeliest to fit."""
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
        change = Split(self.pieces.groups[place])
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
    """As many of the steps, from the first on, as bring most in all after what they cost. `slowest` is how long the
    slowest site takes without them."""
    gained = slowest - np.asarray([slowest, *(step.slowest for step in steps)])
    paid = np.cumsum([0.0, *(step.price for step in steps)])
    return list(steps[: int(np.argmax(gained - paid))])
