"""The status that a run shows to whoever watches it, as values that are written as JSON."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True)
class SiteStatus:
    """`utilisation` is the part of its share of the time that the site is busy, `backlog` its pending rows, `delay` the
    seconds that a row waits until it is worked on."""

    rows_per_second: float
    utilisation: float
    backlog: float
    state_bytes: int
    groups: int
    output_per_second: float = 0.0
    delay: float = 0.0


@dataclass(frozen=True)
class GroupStatus:
    """`group` is written as its bits; `utilisation` is its part of that of its site."""

    group: str
    site: int
    rows_per_second: float
    utilisation: float
    pending: int
    state_bytes: int


@dataclass(frozen=True)
class SubqueryStatus:
    """Invariant: `sites` are in order of their numbers, `hottest` are groups, those with most work first. `capacity` is
    the rows that may be pending at a site (0: no bound), `spread_keys` how many keys are at several sites."""

    name: str
    sites: tuple[SiteStatus, ...]
    hottest: tuple[GroupStatus, ...] = ()
    capacity: int = 0
    spread_keys: int = 0


@dataclass(frozen=True)
class DecisionStatus:
    """What was decided after an epoch, and why; the gain that was predicted and measured, as parts; `refused` is the
    rule that it would have broken."""

    epoch: int
    subquery: int
    what: str
    why: str
    predicted: float | None = None
    measured: float | None = None
    refused: str | None = None


@dataclass(frozen=True)
class Status:
    """How a run is getting on. Invariant: subqueries are in order of their numbers, the newest decision is the last.
    `began` and `at` are seconds since 1970: when the run began, and when this was true. `groups_told`: the sites have
    told of their groups, as they do while somebody watches; without it the hottest are not known."""

    query: str
    fingerprint: str
    epoch: int
    began: float
    at: float
    rows_in_per_second: float
    rows_out_per_second: float
    waiting: int
    low_water_mark: datetime | int | None
    subqueries: tuple[SubqueryStatus, ...]
    decisions: tuple[DecisionStatus, ...] = ()
    groups_told: bool = True
