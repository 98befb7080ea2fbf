"""The status that a run publishes, as values that are written as JSON."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from penstock.control.folder import CONTROL_FORMAT


@dataclass(frozen=True)
class SiteStatus:
    """The status of a site. `utilisation` is the fraction of its share of time that the site is busy, `backlog` its
    pending rows, `delay` the seconds that a row waits until it is processed. `used_bytes` is state, pending and held
    rows, `parked_bytes` parked state; `resident_bytes` is what its worker has in memory, of `memory_limit` that it may
    use (0: unknown)."""

    rows_per_second: float
    utilisation: float
    backlog: float
    state_bytes: int
    groups: int
    output_per_second: float = 0.0
    delay: float = 0.0
    used_bytes: int = 0
    resident_bytes: int = 0
    memory_limit: int = 0
    parked_bytes: int = 0


@dataclass(frozen=True)
class GroupStatus:
    """The status of a group, given as its bits. `utilisation` is its part of its site's utilisation, `last_used` the
    last epoch in which rows of it were seen to arrive (0: none since the run started)."""

    group: str
    site: int
    rows_per_second: float
    utilisation: float
    pending: int
    state_bytes: int
    output_per_second: float = 0.0
    pending_bytes: int = 0
    held_bytes: int = 0
    last_used: int = 0
    parked_bytes: int = 0


@dataclass(frozen=True)
class SubqueryStatus:
    """The status of a subquery. Invariant: `sites` are ordered by number, `hottest` are groups, those with most work
    first. `capacity` is the limit of pending rows at a site (0: unlimited), `spread_keys` the number of keys that are
    spread over several sites."""

    name: str
    sites: tuple[SiteStatus, ...]
    hottest: tuple[GroupStatus, ...] = ()
    capacity: int = 0
    spread_keys: int = 0


@dataclass(frozen=True)
class DecisionStatus:
    """A decision made after an epoch, with its reason. `predicted` and `measured` are the gains as fractions; `refused`
    is the rule that it would have broken."""

    epoch: int
    subquery: int
    what: str
    why: str
    predicted: float | None = None
    measured: float | None = None
    refused: str | None = None


@dataclass(frozen=True)
class Status:
    """The status of a run. Invariant: subqueries are ordered by number, decisions from oldest to newest. `began` and
    `at` are seconds since 1970: the start of the run, and the time of this status. With `has_group_statistics` the
    sites have collected statistics of their groups, as they do while the status is watched; otherwise `hottest` is
    unknown. The checkpoint takes `disk_bytes`, without published rows, of `disk_limit` that it may take (0: no
    limit)."""

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
    has_group_statistics: bool = True
    disk_bytes: int = 0
    disk_limit: int = 0
    format: int = CONTROL_FORMAT
