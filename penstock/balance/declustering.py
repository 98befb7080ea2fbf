"""The degree of declustering: how many sites a subquery is spread over. Pure.

A site with much waiting is a supplier of groups, one with next to nothing a consumer, and all others are neutral. With
no supplier there are more sites than needed; with too many suppliers for the consumers there are too few.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

import numpy as np

from penstock.balance.decisions import Decision, Scale
from penstock.balance.demand import demand
from penstock.balance.round import Figures, Round
from penstock.errors import ConfigError

FULL = 0.75  # no site is given up if the others would be busy for a larger part of the time than this


@dataclass(frozen=True)
class Thresholds:
    """Invariant: 0 <= consumer < supplier. By default for the part of a buffer that is filled."""

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
BUSY = Thresholds(supplier=0.9, consumer=0.8)  # for the part of the time that a site is busy


@dataclass(frozen=True)
class Roles:
    """Sites by what they can do for each other: the most loaded supplier and the least loaded consumer come first."""

    suppliers: tuple[int, ...]
    consumers: tuple[int, ...]


def roles(load: Figures, thresholds: Thresholds) -> Roles:
    order = [int(site) for site in np.argsort(load, kind="stable")]
    return Roles(
        suppliers=tuple(sorted((s for s in order if load[s] > thresholds.supplier), key=lambda s: (-load[s], s))),
        consumers=tuple(site for site in order if load[site] < thresholds.consumer),
    )


def pressure(figures: Round) -> Figures:
    """How loaded each site is: the part of its buffer that was filled. Where buffers have no bound, the part of the
    round that it was busy; not of its share, for the slowest site is busy for all of that, however little it does."""
    return figures.occupancy if figures.capacity else _busy_part(figures)


def _busy_part(figures: Round) -> Figures:
    return figures.busy / figures.seconds if figures.seconds > 0 else np.zeros(len(figures.busy))


def degree(figures: Round, thresholds: Thresholds, beta: float) -> Decision | None:
    """As many sites as the work asks for; None where their number is right. One more or fewer at a time, as in the
    paper, would leave a load that doubles behind for long, and one that ends with idle sites; but not more than half of
    them are given up at once."""
    sites = figures.directory.sites
    found = roles(pressure(figures), thresholds)
    suppliers, consumers = len(found.suppliers), len(found.consumers)
    if suppliers > beta * consumers:
        why = f"{_counted(suppliers)} much to do and {_counted(consumers)} little"
        return _scale(figures, max(sites + 1, _needed(figures)), why)
    if not suppliers and sites > 1 and _others_have_room(figures):
        return _scale(figures, max(min(_needed(figures), sites - 1), sites // 2), "no site has much to do")
    return None


def _needed(figures: Round) -> int:
    """How many sites could do the work of the round, and what is pending, without being busy for longer than `FULL`;
    no more than there may be."""
    asked = demand(figures)
    work = max(float(asked.work.sum() + asked.owed.sum() + asked.cells.sum()), float(figures.busy.sum()))
    needed = ceil(work / (FULL * figures.seconds)) if figures.seconds > 0 else 0
    return min(needed, figures.most_sites or needed)


def _others_have_room(figures: Round) -> bool:
    """Whether one site fewer could do the work. Without this, a number of sites that is just enough, so that none has a
    backlog, would be given up and taken back by turns."""
    return float(_busy_part(figures).sum()) <= FULL * (figures.directory.sites - 1)


def _counted(sites: int) -> str:
    return "1 site has" if sites == 1 else f"{sites} sites have"


def _scale(figures: Round, sites: int, why: str) -> Decision:
    """The slowest site gets its share of the work of the new site, or of the one that goes."""
    return Decision(Scale(sites), why, 1 - figures.directory.sites / sites, _moved_bytes(figures, sites))


def _moved_bytes(figures: Round, sites: int) -> int:
    """What gets another home. Where there are too few groups for the sites, all of them are halved alike."""
    after = figures.directory.scaled(sites)
    pieces = len(after.groups) // len(figures.homes)
    moved = np.repeat(figures.homes, pieces) != np.asarray(after.homes)
    return int((np.repeat(figures.loads.state_bytes, pieces) // pieces)[moved].sum())
