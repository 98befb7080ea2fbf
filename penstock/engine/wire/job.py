"""The tasks of an epoch, as values that travel, and what comes back from them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from penstock.balance.flushing import EAGERLY, Flushing
from penstock.balance.stats import Told
from penstock.checkpoint.manifest import SiteState, Staged
from penstock.connectors.source import Split
from penstock.engine.wire.blob import Blob
from penstock.errors import PenstockError
from penstock.operators.protocol import Explosion
from penstock.plan.program import Feed, Program
from penstock.progress.mark import BEGIN, Mark
from penstock.progress.rules import Seen
from penstock.state.directory import Directory

CONTROL = -1  # the destination of reports: the end of the job


@dataclass(frozen=True)
class Output:
    """Where tasks stage the files of one output."""

    folder: Path
    extension: str
    compression: str = "none"


@dataclass(frozen=True)
class Limits:
    """How much a site does in an epoch: items of at most `item_rows` rows, until `seconds` have passed or `items` are
    done, whichever comes first (None: no such limit); at least one item in any case. Of what `flushing` lets wait, a
    lazy site does as much as fits `idle_seconds`. No more than `buffer_rows` rows are ever left to wait, whatever the
    other limits (None: no bound)."""

    item_rows: int = 1_000_000
    items: int | None = None
    seconds: float | None = None
    flushing: Flushing = EAGERLY
    idle_seconds: float = 0.0
    buffer_rows: int | None = None


@dataclass(frozen=True)
class RouteTask:
    """Read one split. Rows below `late_below`, the punctuation of earlier epochs, are late for what it has closed."""

    ordinal: int
    input: int
    split: Split
    late_below: Mark


@dataclass(frozen=True)
class SourceProgress:
    """What sites know of a source before the epoch: its punctuation so far, which substreams and whether all of it end
    in this epoch, the bound below which its mark cannot be, and how many of its rows have a number."""

    marks: dict[str, Mark]
    ended: bool
    finished: tuple[str, ...] = ()
    floor: Mark = BEGIN
    rows: int = 0


@dataclass(frozen=True)
class EpochJob:
    """What all tasks of an epoch share. `sites[s][n]` is the state of site n of subquery s; `route_inputs[n]` says
    which input the split with ordinal n belongs to, and `late_outputs[i]` where the late rows of input i go. The splits
    themselves travel with their own tasks only. `tell_loads`: sites are to tell what their groups came to. `cache` is
    the folder in which each host keeps what it needs of the runs, of about `cache_bytes`; empty: it reads them where
    they are. `told_keys[s]` are the hashes of subquery s that are known to give very many rows: of others it is told
    before they are worked on. `regridded` are subqueries whose sites have yet to spread their state over new cells."""

    epoch: int
    program: Program
    route_inputs: tuple[int, ...]
    sources: tuple[SourceProgress, ...]
    directories: tuple[Directory, ...]
    sites: tuple[tuple[SiteState, ...], ...]
    runs: Path
    outputs: dict[str, Output]
    late_outputs: tuple[str, ...]
    limits: Limits
    divert_bad_rows: bool
    tell_loads: bool = False
    cache: str = ""
    cache_bytes: int = 0
    told_keys: tuple[frozenset[int], ...] = ()
    regridded: frozenset[int] = frozenset()

    @property
    def width(self) -> int:
        """How many tasks the widest level has."""
        return max((d.sites for d in self.directories), default=1)


@dataclass(frozen=True)
class TaskTime:
    """When a task began, by the clock of its host, how long it took, and where that time went."""

    worker: str
    started: float
    seconds: float
    steps: dict[str, float]


@dataclass(frozen=True)
class RouteReport:
    """What reading a split came to. `rows_out` are those that went to the sink."""

    producer: str
    attempt: str
    input: int
    seen: Seen | None
    rows_read: int
    rows_out: int
    rows_late: int
    rows_bad: int
    numbered: int
    staged: tuple[Staged, ...]
    time: TaskTime


@dataclass(frozen=True)
class SiteReport:
    """What the step of a site came to. `read` maps the branches of producers to the attempt whose blob was read.
    `rows_out` are those that went to the sink, `rows_done` those that were worked on, `backlog` those that wait for it.
    `pending`: something is left to do that was not put off on purpose. `told` says what its groups and keys came to,
    where the job asks for it; `fetched` are the bytes of state that its host has fetched for it, `flushed` the seconds
    spent on what could have been put off. `explosions` are keys that give very many rows."""

    producer: str
    attempt: str
    subquery: int
    site: int
    read: dict[str, str]
    state: SiteState
    staged: tuple[Staged, ...]
    rows_in: int
    rows_done: int
    rows_out: int
    items: int
    pending: bool
    backlog: int
    time: TaskTime
    told: Told | None = None
    fetched: int = 0
    flushed: float = 0.0
    explosions: tuple[Explosion, ...] = ()


@dataclass(frozen=True)
class LastEpoch:
    """What the sites reported of it, how many seconds passed from the end of the one before it to its own, and how many
    of them nobody worked."""

    reports: tuple[SiteReport, ...] = ()
    seconds: float = 0.0
    rest: float = 0.0


@dataclass(frozen=True)
class TaskFailure:
    """An error that would come again however often the task is tried, on its way to the driver."""

    producer: str
    error: PenstockError


Report = RouteReport | SiteReport | TaskFailure

# What the reports of an epoch's splits lead to: the splits of the epoch behind it, and as much of its job as they need.
# An executor may begin with them at once, and void them if that epoch does not come with the very same splits.
Following = Callable[[Sequence[Report]], "tuple[EpochJob, Sequence[RouteTask]] | None"]


def nothing_follows(reports: Sequence[Report]) -> None:
    """The epoch behind is not known yet."""


@dataclass(frozen=True)
class Message:
    """Something on its way: a blob to a site of a subquery, or a report to the end of the job."""

    subquery: int
    site: int
    content: Blob | Report


def route_producer(ordinal: int) -> str:
    return f"split-{ordinal}"


def branch_name(producer: str, branch: int) -> str:
    """What a branch of a producer is called where sites report what they have read."""
    return f"{producer}/{branch}"


def site_producer(subquery: int, site: int) -> str:
    return f"subquery-{subquery}-site-{site}"


def producers_of(job: EpochJob, feed: Feed) -> list[str]:
    """The tasks of an epoch that a branch starts from: the splits of an input, or the sites of a subquery."""
    if feed.is_input:
        return [route_producer(n) for n, index in enumerate(job.route_inputs) if index == feed.producer]
    return [site_producer(feed.producer, site) for site in range(job.directories[feed.producer].sites)]
