"""Sites in pairs, one that gives and one that receives, and what moves between them are expected to gain. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from penstock.balance.decisions import Decision, Move
from penstock.balance.stats import Figures, Mask, Round


@dataclass(frozen=True)
class Pick:
    """A group, by its place in the directory, that is to get another home."""

    place: int
    target: int
    reason: str


def pairs(load: Figures) -> Iterator[tuple[int, int]]:
    """(donor, receiver): the site with the most load and that with the least, and so on towards the middle. No site is
    in two pairs; of an odd number the one in the middle is in none."""
    most_first = np.argsort(-load, kind="stable")
    for rank in range(len(most_first) // 2):
        yield int(most_first[rank]), int(most_first[-1 - rank])


def largest(sizes: npt.NDArray[np.int64], may: Mask) -> int | None:
    """Where the largest is of those that may be taken, the first of equals; None if none may."""
    return int(np.argmax(np.where(may, sizes, -1))) if may.any() else None


@dataclass(frozen=True, eq=False)
class Forecast:
    """How long each site would be busy if a round came again after some moves: as many rows for each group, and sites
    that are as fast."""

    figures: Round
    busy: Figures

    def after(self, pick: Pick) -> Forecast:
        rows, speeds = int(self.figures.loads.rows[pick.place]), self.figures.speeds
        source = int(self.figures.homes[pick.place])
        busy = self.busy.copy()
        busy[source] = max(0.0, busy[source] - rows / speeds[source])
        busy[pick.target] += rows / speeds[pick.target]
        return replace(self, busy=busy)

    def gain(self, later: Forecast) -> float:
        """The part by which the slowest site gets faster; below 0 if it gets slower."""
        slowest = float(self.busy.max())
        return 1 - float(later.busy.max()) / slowest if slowest else 0.0


def decisions(figures: Round, picks: Iterable[Pick]) -> tuple[Decision, ...]:
    """The picks as decisions. Each gains over those before it, so what they gain together is the product of what they
    leave."""
    made: list[Decision] = []
    now = Forecast(figures, figures.busy)
    for pick in picks:
        later = now.after(pick)
        move = Move(figures.directory.groups[pick.place], int(figures.homes[pick.place]), pick.target)
        cost = int(figures.loads.state_bytes[pick.place])
        made.append(Decision(move, pick.reason, now.gain(later), cost))
        now = later
    return tuple(made)
