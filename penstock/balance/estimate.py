"""What groups ask of their sites in a round, and how fast the sites are. Pure.

One measurement holds both: a group takes long because it has much to do, or because its site is slow. A slow site is
slow with all of its groups, so where the median group of a site differs much from the whole, its speed is that of the
median: a few groups with costly rows do not make it look slow.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from penstock.balance.keys import NO_CELLS
from penstock.balance.stats import Counts, Figures, Round

NOISE_ROWS = 100  # the time of a group with no more rows than this says little; its rows say more
MOST_SPREAD = 0.2  # of the median cost of a row in a group: what the cost over all groups may differ from it
MOST_CORRECTION = 4.0  # times: what a group of which few rows were done would take for all that came is a guess


@dataclass(frozen=True, eq=False)
class Demand:
    """Invariant: `work` has one entry per group, in the order of the directory: the seconds of a round that it takes at
    a site of speed 1. `owed` is the same for what is pending. `speeds` has one entry per site, 1 on average. `cells` is
    the work of the cells of each spread hash at each site."""

    work: Figures
    owed: Figures
    speeds: Figures
    cells: Figures = field(default_factory=lambda: NO_CELLS.seconds)

    @property
    def ideal(self) -> float:
        """The seconds that every site would take for its part, were work as fine as sand."""
        return float((self.work.sum() + self.cells.sum()) / self.speeds.sum())

    def of_sites(self, figures: Round) -> Figures:
        """The work of each site."""
        return np.asarray(figures.of_sites(self.work) + self.cells.sum(axis=0))


def demand(figures: Round) -> Demand:
    worked = _at_home(figures)
    speeds = _speeds(figures, worked)
    at_home = speeds[figures.homes]
    work, cells = _to_keep_up(figures, worked) * at_home, _cells_to_keep_up(figures) * speeds
    return Demand(work, _owed(figures) * at_home, speeds, cells)


def _at_home(figures: Round) -> Figures:
    """The seconds that each group took of its site, which add up to those that the site was busy with groups.

    What was measured is the work on rows; the rest of a busy site went into taking rows in, so it is shared out by
    rows. Where a group has so few that its time is noise, all is."""
    loads, homes, busy = figures.loads, figures.homes, _busy_with_groups(figures)
    measured = loads.seconds + loads.rows * _intake(figures)[homes]
    seen = loads.done + loads.state_rows
    trust = seen / (seen + NOISE_ROWS)
    mixed = trust * measured + (1 - trust) * loads.done * _ratio(busy, figures.of_sites(loads.done))[homes]
    return mixed * _ratio(busy, figures.of_sites(mixed))[homes]


def _busy_with_groups(figures: Round) -> Figures:
    """The seconds that each site was busy, but not with its cells."""
    return np.asarray(np.maximum(figures.busy - _of_cells(figures).sum(axis=0), 0.0))


def _of_cells(figures: Round) -> Figures:
    """The seconds that each spread hash took of each site."""
    cells = figures.cells
    return cells.seconds + (cells.cut + cells.copied) * _intake(figures)


def _intake(figures: Round) -> Figures:
    """The seconds of a row at each site that went into taking it in."""
    worked = figures.of_sites(figures.loads.seconds) + figures.cells.seconds.sum(axis=0)
    rest = np.maximum(figures.busy - worked, 0.0)
    return _ratio(rest, figures.of_sites(figures.loads.rows) + figures.cells.rows)


def _to_keep_up(figures: Round, worked: Figures) -> Figures:
    """The seconds that each group would have taken for just the rows that came: a deadline ends the work of a slow site
    as early as that of a fast one, and which groups it reached is chance."""
    rows, done, homes = figures.loads.rows, figures.loads.done, figures.homes
    of_site = rows * _ratio(_busy_with_groups(figures), figures.of_sites(done))[homes]
    return _corrected(rows, done, worked, of_site)


def _cells_to_keep_up(figures: Round) -> Figures:
    """The same for the cells of each spread hash at each site."""
    cells, worked = figures.cells, _of_cells(figures)
    rows, done = cells.cut + cells.copied, cells.done
    of_site = rows * _ratio(figures.busy, figures.of_sites(figures.loads.done) + done.sum(axis=0))
    return _corrected(rows, done, worked, of_site)


def _corrected(rows: Counts, done: Counts, worked: Figures, of_site: Figures) -> Figures:
    """What was worked on `done` rows, for all `rows`. Where few were done, it is what their site takes for so many."""
    factor = np.clip(_ratio(rows.astype(np.float64), done), 1 / MOST_CORRECTION, MOST_CORRECTION)
    return np.where(done >= NOISE_ROWS, worked * factor, np.where(rows > done, of_site, worked))


def _owed(figures: Round) -> Figures:
    """The seconds that pending rows will take, but no more than the site was busy."""
    done, busy, homes = figures.of_sites(figures.loads.done), _busy_with_groups(figures), figures.homes
    owed = figures.loads.pending * _ratio(busy, done)[homes]
    return owed * np.minimum(1.0, _ratio(busy, figures.of_sites(owed)))[homes]


def _speeds(figures: Round, worked: Figures) -> Figures:
    cost = _costs(figures, worked)
    known = cost > 0
    if not known.any():
        return np.ones(len(cost))
    speeds = _ratio(np.ones(len(cost)), cost)
    speeds = np.where(known, speeds, speeds[known].mean())
    return np.asarray(speeds / speeds.mean())


def _costs(figures: Round, worked: Figures) -> Figures:
    """The seconds of a row at each site. That of all its rows is known best, so small differences do not count."""
    done, sites = figures.loads.done, figures.directory.sites
    whole = _ratio(figures.of_sites(worked), figures.of_sites(done))
    costs, sure = _ratio(worked, done), done >= NOISE_ROWS
    medians = np.asarray([_median(costs[sure & (figures.homes == site)]) for site in range(sites)])
    return np.where(np.abs(whole - medians) > MOST_SPREAD * medians, np.where(medians > 0, medians, whole), whole)


def _median(costs: Figures) -> float:
    return float(np.median(costs)) if len(costs) else 0.0


def _ratio(above: Figures, below: Figures | Counts) -> Figures:
    """0 where there is nothing to divide by."""
    return np.divide(above, below, out=np.zeros(above.shape), where=below > 0)
