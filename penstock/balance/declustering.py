"""The degree of declustering: how many sites a subquery is spread over. Pure.

A site with much waiting is a supplier of groups, one with next to nothing a consumer, and all others are neutral. With
no supplier there are more sites than needed; with too many suppliers for the consumers there are too few.

What a number of sites can do is believed once it was seen: where it was too few, what it did then is its capacity, and
it is not gone back to before the load is well below that. Estimates alone would give up a site and take it back by
turns. Behind a change of the number, a round goes by before the next one: it works off what the change has left.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import ceil, inf

import numpy as np

from penstock.balance.decisions import Decision, Scale
from penstock.balance.estimate import demand
from penstock.balance.stats import Figures, Round
from penstock.errors import ConfigError

FULL = 0.75  # no site is given up if the others would be busy for a larger part of the time than this
BELIEVED = 0.5  # of the factor by which rows seem to have become cheaper
EQUAL = 1e-9  # numbers that differ by less are equal
CHANGED = 1.25  # times: a load that has grown or fallen by less is the same
TRIES = 2  # changes of the number of sites under one load by what is estimated; after that, by what is sure
LEFT = 0.01  # of the rows of a round: what may be pending where there are sites to spare
REST = 1  # rounds for which the number of sites stays after a change


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


@dataclass(frozen=True)
class Capacity:
    """What some sites did when they were too few: rows a second, and the seconds of one site that a row cost."""

    rows: float
    cost: float

    def now(self, cost: float) -> float:
        """Return the rows a second that they could do by now, when a row costs so much. Backlogs and larger epochs
        change costs as well, so that only half of a lower cost is believed."""
        return self.rows * max(1.0, BELIEVED * self.cost / cost) if cost > 0 else self.rows


@dataclass(frozen=True)
class Experience:
    """What is known of numbers of sites: the `capacity` of those that were too few. `steps` is how many changes up
    (above 0) or down (below 0) have come one after the other, `before` the number of sites before the last of them, and
    `changes` how many there were under the load of now, which is `rate` rows a second, `shrinks` of them down. In the
    `rest` rounds to come the number stays."""

    capacity: Mapping[int, Capacity] = field(default_factory=dict)
    steps: int = 0
    before: int = 0
    changes: int = 0
    shrinks: int = 0
    rate: float = 0.0
    rest: int = 0

    def after(self, figures: Round, wanted: Decision | None) -> Experience:
        """Return what is known after a round at whose end that many sites were `wanted`."""
        rate = _rate(figures, figures.rows_in)
        if wanted is None or not isinstance(wanted.change, Scale):
            return replace(self, rest=self.rest - 1, rate=rate) if self.rest else self._calm(rate)
        sites = figures.directory.sites
        changed = replace(self, before=sites, changes=self.changes + 1, rate=rate, rest=REST)
        if wanted.change.sites < sites:
            return replace(changed, steps=min(self.steps, 0) - 1, shrinks=self.shrinks + 1)
        seen = Capacity(_rate(figures, float(figures.done.sum())), _cost(figures))
        return replace(changed, steps=max(self.steps, 0) + 1, capacity={**self.capacity, sites: seen})

    def _calm(self, rate: float) -> Experience:
        """Return the same after a round without a change; another load is a new one to find the right number for."""
        same = self.rate / CHANGED <= rate <= self.rate * CHANGED
        return replace(self, steps=0) if same else replace(self, steps=0, changes=0, shrinks=0, rate=rate)

    @property
    def may_shrink(self) -> bool:
        """Whether a site may be given up under this load: fewer sites may look less busy again and again. It is tried
        twice, and once more where the number had to grow twice, which may have been too much."""
        return self.changes < TRIES or (self.changes == TRIES and not self.shrinks)

    def fewest(self, figures: Round) -> int:
        """Return how many sites can do the load of a round with some room left, as far as was seen."""
        rate, cost = _rate(figures, figures.rows_in), _cost(figures)
        return max((_fewest_of(sites, seen.now(cost), rate) for sites, seen in self.capacity.items()), default=1)


def _fewest_of(sites: int, done: float, rate: float) -> int:
    """Return how many sites can do `rate` rows a second, where so many of them could just do `done`: up to that number,
    each can do a part of it; how many more are needed beyond it was not seen."""
    if done <= 0 or rate > FULL * done * (1 + EQUAL):
        return sites + 1
    return max(1, ceil(rate / (FULL * done / sites) - EQUAL))


def _cost(figures: Round) -> float:
    done = float(figures.done.sum())
    return float(figures.busy.sum()) / done if done else 0.0


def _rate(figures: Round, rows: float) -> float:
    return rows / figures.seconds if figures.seconds > 0 else inf


def degree(
    figures: Round, thresholds: Thresholds, beta: float, experience: Experience | None = None
) -> Decision | None:
    """As many sites as the work asks for; None where their number is right. One more or fewer at a time, as in the
    paper, would leave a load that doubles behind for long, and one that ends with idle sites; but not more than half of
    them are given up at once, unless that was not enough. Where there are still too few after a change, there may be
    as many as are allowed, for work that is not taken in cannot be estimated."""
    known = experience or Experience()
    if known.rest:
        return None
    sites = figures.directory.sites
    found = roles(pressure(figures), thresholds)
    suppliers, consumers = len(found.suppliers), len(found.consumers)
    if suppliers > beta * consumers:
        why = f"{_counted(suppliers)} much to do and {_counted(consumers)} little"
        return _scale(figures, max(sites + 1, _needed(figures), _back(figures, known)), why)
    if not suppliers and sites > 1 and known.may_shrink and _keeps_up(figures) and _others_have_room(figures):
        half = sites // 2 if known.steps >= 0 else 1
        target = max(min(_needed(figures), sites - 1), half, known.fewest(figures))
        return _scale(figures, target, "no site has much to do") if target < sites else None
    return None


def _back(figures: Round, known: Experience) -> int:
    """Return the number of sites that is known, or likely, to be enough where there are too few after a change."""
    if known.steps > 0 or known.changes >= TRIES:
        return figures.most_sites
    return known.before if known.steps < 0 else 0


def _needed(figures: Round) -> int:
    """How many sites could do the work of the round, and what is pending, without being busy for longer than `FULL`;
    no more than there may be."""
    asked = demand(figures)
    work = max(float(asked.work.sum() + asked.owed.sum() + asked.cells.sum()), float(figures.busy.sum()))
    needed = ceil(work / (FULL * figures.seconds)) if figures.seconds > 0 else 0
    return min(needed, figures.most_sites or needed)


def _keeps_up(figures: Round) -> bool:
    """Whether next to nothing is left: a backlog that grows, or does not shrink, says that no site can be spared."""
    return int(figures.loads.pending.sum()) <= LEFT * figures.rows_in


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
