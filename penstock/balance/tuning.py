"""Fine tuning: split groups that are too large or too hot, merge small cold buddies. Pure.

Sizes are rows of state. A group is kept between theta and two theta (window joins in a cluster, section IV-D).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from penstock.balance.decisions import Decision, Merge, SplitGroup
from penstock.balance.estimate import NOISE_ROWS, Demand, demand
from penstock.balance.rules import MOST_DEPTH
from penstock.balance.stats import FloatArray, IntArray, RoundStats
from penstock.state.directory import Group

HOT = 0.5  # part of a site's mean work: with groups that do more, the sites cannot be levelled
COLD = HOT / 2  # buddies that do less together may be merged; the gap keeps them from being split again at once
WORTH_PARTING = 0.02  # part of a site's mean work that the keys beside the heaviest must do for a split to help
# The paper merges a bucket below theta with its buddy up to 2 theta. The gap below that keeps a group whose size varies
# around 2 theta from being split and merged by turns.
MERGED = 1.5


@dataclass(frozen=True)
class TuningBounds:
    """The limits of fine tuning. `least`, `hot` and `large` are mean numbers of groups per site: no merge below
    `least`, no split of a hot group above `hot`, no split of a large group above `large`. No merge makes a group of
    fewer than `depth` bits. `changes` limits the changes of one round, since each rebuilds the directory."""

    least: int = 8
    hot: int = 64
    large: int = 4096
    depth: int = 0
    changes: int = 64


BOUNDS = TuningBounds()
CROWDED = 32  # groups per site: fewer cannot be levelled well


def keeping_first(stats: RoundStats, bounds: TuningBounds = BOUNDS, crowded: int = CROWDED) -> TuningBounds:
    """Return bounds under which merges only undo splits that are no longer needed: above `crowded` groups per site, and
    never to a prefix shorter than the shortest of now."""
    shortest = min(group.depth for group in stats.directory.groups)
    return replace(bounds, least=crowded, depth=shortest)


def tuned(stats: RoundStats, theta: int, bounds: TuningBounds = BOUNDS) -> list[Decision]:
    """Return splits, the most urgent first, and then merges."""
    asked = demand(stats)
    splits = [*too_hot(stats, asked, bounds), *too_large(stats, theta, bounds)]
    splits = list({decision.change: decision for decision in reversed(splits)}.values())[::-1][: bounds.changes]
    merges = mergeable(stats, asked, theta, bounds)
    return [*splits, *merges[: max(0, bounds.changes - len(splits))]]


def heavy_part(stats: RoundStats) -> FloatArray:
    """Return the fraction of each group's rows that belong to its heaviest key; 1 without rows, since there is nothing
    to divide."""
    rows = stats.loads.rows
    return np.divide(stats.loads.heaviest, rows, out=np.ones(len(rows)), where=rows > 0)


def too_hot(stats: RoundStats, asked: Demand, bounds: TuningBounds = BOUNDS) -> list[Decision]:
    """Return splits of groups with so much work that the sites cannot be levelled, the hottest first."""
    sites, average = stats.directory.sites, float(asked.work.sum()) / stats.directory.sites
    parts = asked.work * (1 - heavy_part(stats)) > WORTH_PARTING * average
    hot = (asked.work > HOT * average) & parts & (stats.loads.rows > NOISE_ROWS)
    if sites == 1 or average <= 0:
        return []
    room = bounds.hot * sites - len(asked.work)
    chosen = _splittable(stats, np.flatnonzero(hot), asked.work)[: max(0, min(room, bounds.changes))]
    return [_split_hot(stats.directory.groups[n], float(asked.work[n]) / average) for n in chosen]


def _split_hot(group: Group, part: float) -> Decision:
    return Decision(SplitGroup(group), f"it has {part:.0%} of the mean work of a site")


def too_large(stats: RoundStats, theta: int, bounds: TuningBounds = BOUNDS) -> list[Decision]:
    """Return splits of groups with more than two theta rows of state, the largest first."""
    held = stats.loads.state_rows
    room = bounds.large * stats.directory.sites - len(held)
    several = (stats.loads.rows == 0) | (stats.loads.heaviest < stats.loads.rows)
    chosen = _splittable(stats, np.flatnonzero((held > 2 * theta) & several), held.astype(np.float64))
    return [
        Decision(SplitGroup(stats.directory.groups[n]), f"it holds {held[n]:,} rows, more than {2 * theta:,}")
        for n in chosen[: max(0, min(room, bounds.changes))]
    ]


def _splittable(stats: RoundStats, places: IntArray, by: FloatArray) -> list[int]:
    """Return those of `places` whose groups may be split further, in descending order of `by`."""
    order = places[np.argsort(-by[places], kind="stable")]
    return [int(n) for n in order if stats.directory.groups[n].depth < MOST_DEPTH]


def mergeable(stats: RoundStats, asked: Demand, theta: int, bounds: TuningBounds = BOUNDS) -> list[Decision]:
    """Return merges of buddies at one site that are small and cold, the smallest first. With hardly any rows all groups
    look cold, so such a round gives none."""
    sites, groups = stats.directory.sites, stats.directory.groups
    room = len(groups) - bounds.least * sites
    if room <= 0 or stats.loads.rows.sum() < NOISE_ROWS * sites:
        return []
    held, work = stats.loads.state_rows, asked.work
    together = held[:-1] + held[1:]
    small = (np.minimum(held[:-1], held[1:]) < theta) & (together < MERGED * theta)
    cold = work[:-1] + work[1:] <= COLD * work.sum() / sites
    pairs = np.flatnonzero(_buddies(stats, bounds.depth) & small & cold)
    chosen = pairs[np.argsort(together[pairs], kind="stable")][: min(room, bounds.changes)]
    return [Decision(Merge(groups[n].parent), f"its halves hold {together[n]:,} rows in total") for n in chosen]


def _buddies(stats: RoundStats, depth: int) -> npt.NDArray[np.bool_]:
    """Return, for each group but the last, whether it and the next group are the two halves of one group of at least
    `depth` bits and are at the same site."""
    groups = stats.directory.groups
    depths = stats.directory.depths
    odd = np.fromiter((group.prefix & 1 for group in groups), np.int64, len(groups))
    # In hash order, a group with an even prefix is followed by its buddy, or by a deeper part of its buddy.
    halves = (depths[:-1] == depths[1:]) & (odd[:-1] == 0) & (depths[:-1] > depth)
    return np.asarray(halves & (stats.homes[:-1] == stats.homes[1:]))
