"""Estimates of the work of each group in a round, and of the speed of each site. Pure.

Both come from one measurement: a group takes long because it has much work, or because its site is slow. A slow site is
slow for all of its groups. So if the median cost per row of a site's groups differs much from the overall cost, the
median gives its speed: a few groups with expensive rows do not make the site look slow.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from penstock.balance.keys import NO_CELLS
from penstock.balance.stats import FloatArray, IntArray, RoundStats

NOISE_ROWS = 100  # with fewer rows than this, the time of a group is mostly noise and its row count says more
MOST_DEVIATION = 0.2  # part of the median cost per row by which the overall cost may differ from the median
MOST_CORRECTION = 4.0  # bound of the factor from rows done to rows arrived: with few rows done it is a guess


@dataclass(frozen=True, eq=False)
class Demand:
    """The estimated work of a round. Invariant: `work` has one entry per group, in directory order: the seconds that
    the group's rows of a round take at a site of speed 1. `owed` is the same for its pending rows. `speeds` has one
    entry per site, with mean 1. `cells` is the work of each spread hash (axis 0) at each site (axis 1)."""

    work: FloatArray
    owed: FloatArray
    speeds: FloatArray
    cells: FloatArray = field(default_factory=lambda: NO_CELLS.seconds)

    @property
    def ideal(self) -> float:
        """Return the lower bound of a round's time: seconds per site if the work could be divided perfectly."""
        return float((self.work.sum() + self.cells.sum()) / self.speeds.sum())

    def of_sites(self, stats: RoundStats) -> FloatArray:
        """Return the work of each site: that of its groups and of its cells."""
        return np.asarray(stats.of_sites(self.work) + self.cells.sum(axis=0))


def demand(stats: RoundStats) -> Demand:
    """Estimate work and speeds from the statistics of a round."""
    worked = _at_home(stats)
    speeds = _speeds(stats, worked)
    at_home = speeds[stats.homes]
    work, cells = _to_keep_up(stats, worked) * at_home, _cells_to_keep_up(stats) * speeds
    return Demand(work, _owed(stats) * at_home, speeds, cells)


def _at_home(stats: RoundStats) -> FloatArray:
    """Return the seconds of its site that each group took; per site they add up to the time it was busy with groups.

    Only the processing of rows is measured. Other busy time of a site is intake, and is divided by rows. For a
    group with so few rows that its time is noise, all of its time is estimated by rows.
    """
    loads, homes, busy = stats.loads, stats.homes, _busy_with_groups(stats)
    measured = loads.seconds + loads.rows * _intake(stats)[homes]
    seen = loads.done + loads.state_rows
    trust = seen / (seen + NOISE_ROWS)
    mixed = trust * measured + (1 - trust) * loads.done * _ratio(busy, stats.of_sites(loads.done))[homes]
    return mixed * _ratio(busy, stats.of_sites(mixed))[homes]


def _busy_with_groups(stats: RoundStats) -> FloatArray:
    """Return the seconds that each site was busy, without the time of its cells."""
    return np.asarray(np.maximum(stats.busy - _of_cells(stats).sum(axis=0), 0.0))


def _of_cells(stats: RoundStats) -> FloatArray:
    """Return the seconds that each spread hash (axis 0) took at each site (axis 1), intake included."""
    cells = stats.cells
    return cells.seconds + (cells.cut + cells.copied) * _intake(stats)


def _intake(stats: RoundStats) -> FloatArray:
    """Return the seconds per row that each site spent on intake."""
    worked = stats.of_sites(stats.loads.seconds) + stats.cells.seconds.sum(axis=0)
    rest = np.maximum(stats.busy - worked, 0.0)
    return _ratio(rest, stats.of_sites(stats.loads.rows) + stats.cells.rows)


def _to_keep_up(stats: RoundStats, worked: FloatArray) -> FloatArray:
    """Return the seconds that each group would have taken for exactly the rows that arrived. A deadline stops a slow
    site as early as a fast one, and which groups were reached by then is chance, so measured time alone would
    mislead."""
    rows, done, homes = stats.loads.rows, stats.loads.done, stats.homes
    of_site = rows * _ratio(_busy_with_groups(stats), stats.of_sites(done))[homes]
    return _corrected(rows, done, worked, of_site)


def _cells_to_keep_up(stats: RoundStats) -> FloatArray:
    """Return the seconds that each spread hash (axis 0) would have taken at each site (axis 1) for exactly the rows
    that arrived."""
    cells, worked = stats.cells, _of_cells(stats)
    rows, done = cells.cut + cells.copied, cells.done
    of_site = rows * _ratio(stats.busy, stats.of_sites(stats.loads.done) + done.sum(axis=0))
    return _corrected(rows, done, worked, of_site)


def _corrected(rows: IntArray, done: IntArray, worked: FloatArray, of_site: FloatArray) -> FloatArray:
    """Scale the seconds `worked` on `done` rows to all `rows`. With fewer than `NOISE_ROWS` rows done, use `of_site`,
    the site's average for so many rows, instead."""
    factor = np.clip(_ratio(rows.astype(np.float64), done), 1 / MOST_CORRECTION, MOST_CORRECTION)
    return np.where(done >= NOISE_ROWS, worked * factor, np.where(rows > done, of_site, worked))


def _owed(stats: RoundStats) -> FloatArray:
    """Return the seconds that pending rows will take; per site at most the time it was busy."""
    done, busy, homes = stats.of_sites(stats.loads.done), _busy_with_groups(stats), stats.homes
    owed = stats.loads.pending * _ratio(busy, done)[homes]
    return owed * np.minimum(1.0, _ratio(busy, stats.of_sites(owed)))[homes]


def _speeds(stats: RoundStats, worked: FloatArray) -> FloatArray:
    """Return the speed of each site, with mean 1. A site without measurements gets the mean of the others."""
    cost = _costs(stats, worked)
    known = cost > 0
    if not known.any():
        return np.ones(len(cost))
    speeds = _ratio(np.ones(len(cost)), cost)
    speeds = np.where(known, speeds, speeds[known].mean())
    return np.asarray(speeds / speeds.mean())


def _costs(stats: RoundStats, worked: FloatArray) -> FloatArray:
    """Return the seconds per row at each site. The overall cost is the most precise, so the median of the groups
    replaces it only where the two differ by more than `MOST_DEVIATION`."""
    done, sites = stats.loads.done, stats.directory.sites
    whole = _ratio(stats.of_sites(worked), stats.of_sites(done))
    costs, sure = _ratio(worked, done), done >= NOISE_ROWS
    medians = _medians(costs[sure], stats.homes[sure], sites)
    return np.where(np.abs(whole - medians) > MOST_DEVIATION * medians, np.where(medians > 0, medians, whole), whole)


def _medians(costs: FloatArray, homes: IntArray, sites: int) -> FloatArray:
    """Return the median of the costs at each site; 0 for a site without any."""
    ordered, count = costs[np.lexsort((costs, homes))], np.bincount(homes, minlength=sites)
    first, known = np.cumsum(count) - count, count > 0
    middle = (first + (count - 1) // 2)[known], (first + count // 2)[known]
    medians = np.zeros(sites)
    medians[known] = (ordered[middle[0]] + ordered[middle[1]]) / 2
    return medians


def _ratio(above: FloatArray, below: FloatArray | IntArray) -> FloatArray:
    """Divide, giving 0 where the divisor is 0."""
    return np.divide(above, below, out=np.zeros(above.shape), where=below > 0)
