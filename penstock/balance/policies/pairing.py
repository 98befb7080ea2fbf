"""Pairs of a donor and a receiver, and the expected gain of moves between them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from penstock.balance.decisions import Decision, Move
from penstock.balance.stats import BoolArray, FloatArray, RoundStats


@dataclass(frozen=True)
class Pick:
    """A group, by its place in the directory, to move to the site `target`."""

    place: int
    target: int
    reason: str


def pairs(load: FloatArray, receives: BoolArray | None = None) -> Iterator[tuple[int, int]]:
    """Yield (donor, receiver): the site with the most load and the site with the least, then the second most and the
    second least, and so on. With an odd number of sites the middle one is in no pair. Sites outside of the mask
    `receives` are passed over as receivers (None: none is)."""
    most_first = np.argsort(-load, kind="stable")
    last = [rank for rank in reversed(range(len(load))) if receives is None or receives[most_first[rank]]]
    for first, rank in enumerate(last):
        if first >= rank:
            return
        yield int(most_first[first]), int(most_first[rank])


def largest(sizes: npt.NDArray[np.int64], may: BoolArray) -> int | None:
    """Return the index of the largest entry among those allowed by `may`, the first of equals; None if none is
    allowed."""
    return int(np.argmax(np.where(may, sizes, -1))) if may.any() else None


@dataclass(frozen=True, eq=False)
class Forecast:
    """The busy seconds of each site if the round were repeated after some moves, with the same rows per group and the
    same speeds."""

    stats: RoundStats
    busy: FloatArray

    def after(self, pick: Pick) -> Forecast:
        """Return the forecast after one more move."""
        rows, speeds = int(self.stats.loads.rows[pick.place]), self.stats.speeds
        source = int(self.stats.homes[pick.place])
        busy = self.busy.copy()
        busy[source] = max(0.0, busy[source] - rows / speeds[source])
        busy[pick.target] += rows / speeds[pick.target]
        return replace(self, busy=busy)

    def gain(self, later: Forecast) -> float:
        """Return the fraction by which the slowest site is faster in `later`; negative if it is slower."""
        slowest = float(self.busy.max())
        return 1 - float(later.busy.max()) / slowest if slowest else 0.0


def decisions(stats: RoundStats, picks: Iterable[Pick]) -> tuple[Decision, ...]:
    """Turn picks into decisions. Each gain is relative to the moves before it, so the gains multiply: the total is 1
    minus the product of (1 - gain)."""
    made: list[Decision] = []
    now = Forecast(stats, stats.busy)
    for pick in picks:
        later = now.after(pick)
        move = Move(stats.directory.groups[pick.place], int(stats.homes[pick.place]), pick.target)
        cost = int(stats.loads.state_bytes[pick.place])
        made.append(Decision(move, pick.reason, now.gain(later), cost))
        now = later
    return tuple(made)


def sites_in(made: Sequence[Decision]) -> frozenset[int]:
    """Return the sites that give or receive in some moves."""
    moves = [decision.change for decision in made if isinstance(decision.change, Move)]
    return frozenset(site for move in moves for site in (move.source, move.target))
