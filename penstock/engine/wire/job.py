"""The job of an epoch and its tasks, as values sent to workers, and the reports that come back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from pathlib import Path

from penstock.arrow import Compression, ResultFormat
from penstock.balance.flushing import EAGERLY, Flushing
from penstock.balance.stats import SiteStatistics
from penstock.clock import TaskTime
from penstock.connectors.source import Split
from penstock.engine.wire.blob import Blob
from penstock.errors import PenstockError
from penstock.operators.protocol import Explosion
from penstock.plan.program import Feed, Program
from penstock.progress.mark import BEGIN, Mark, Seen
from penstock.state.directory import Directory
from penstock.state.hash_ranges import HashRange
from penstock.state.model import SiteState, Staged


@dataclass(frozen=True)
class Output:
    """The folder and the file format in which tasks stage the files of one output."""

    folder: Path
    extension: ResultFormat
    compression: Compression = "none"


@dataclass(frozen=True)
class WorkLimits:
    """Bounds on the work of a site in an epoch.

    A site uses at most `memory` bytes (0: a share of its machine's). It runs items of at most `item_rows` rows until
    `seconds` have passed or `items` are done, whichever comes first (None: no such limit), but at least one item. Of
    the work that `flushing` allows to defer, a lazy site does as much as fits into `idle_seconds`. A site never leaves
    more than `buffer_rows` rows pending, whatever the other limits (None: no bound). A clean-up begins no further part
    after `clean_up_seconds`. Runs are merged only as long as all that the site writes takes at most `merge_bytes`
    (None: no bound). If `more_waits`, sources have more rows for later epochs, so rows may wait for others of their
    hashes where that saves reading much state.
    """

    item_rows: int = 1_000_000
    items: int | None = None
    seconds: float | None = None
    flushing: Flushing = EAGERLY
    idle_seconds: float = 0.0
    buffer_rows: int | None = None
    memory: int = 0
    clean_up_seconds: float = 1.0
    merge_bytes: int | None = None
    more_waits: bool = False


@dataclass(frozen=True)
class RouteTask:
    """A task that reads and routes one split. Rows below `late_below`, the punctuation of earlier epochs, are late for
    every window that it has closed."""

    ordinal: int
    input: int
    split: Split
    late_below: Mark


@dataclass(frozen=True)
class SourceProgress:
    """The progress of a source before the epoch, as sites need it to derive their marks.

    `marks` is the punctuation of each substream so far; `finished` are the substreams that end in this epoch, `ended`
    says whether the whole source does. The mark of the source is at least `floor`. `rows` is how many of its rows have
    been numbered.
    """

    marks: dict[str, Mark]
    ended: bool
    finished: tuple[str, ...] = ()
    floor: Mark = BEGIN
    rows: int = 0


@dataclass(frozen=True)
class ToSite:
    """The destination of a blob: a site of a subquery."""

    subquery: int
    site: int


@dataclass(frozen=True)
class ToDriver:
    """The destination of reports: the driver, at the end of the job."""


TO_DRIVER = ToDriver()


@dataclass(frozen=True)
class EpochJob:
    """The data that all tasks of an epoch share. Each split is sent with its own task only.

    `sites[s][n]` is the state of site n of subquery s (None: it runs elsewhere), `route_inputs[n]` the input that the
    split with ordinal n belongs to, and `late_outputs[i]` the output for late rows of input i. `collect_statistics`
    asks the sites for statistics of their groups. `cache` is the folder in which each host caches the runs that it
    needs, up to about `cache_bytes`; empty: runs are read where they are. `reported_keys[s]` are the hashes of subquery
    s whose large number of result rows has been reported already: a site reports other such keys before it works on
    them.
    `regridded` are the subqueries whose sites must first redistribute their state over the cells of a new grid.
    `other_runs` are the names of runs of sites that run elsewhere and that may be open or cached here. `clean_up[s]`
    are the sorted ranges of subquery s whose parked state is to be cleaned up.
    """

    epoch: int
    program: Program
    route_inputs: tuple[int, ...]
    sources: tuple[SourceProgress, ...]
    directories: tuple[Directory, ...]
    sites: tuple[tuple[SiteState | None, ...], ...]
    runs: Path
    outputs: dict[str, Output]
    late_outputs: tuple[str, ...]
    limits: WorkLimits
    divert_bad_rows: bool
    collect_statistics: bool = False
    cache: str = ""
    cache_bytes: int = 0
    reported_keys: tuple[frozenset[int], ...] = ()
    regridded: frozenset[int] = frozenset()
    other_runs: frozenset[str] = frozenset()
    clean_up: tuple[tuple[HashRange, ...], ...] = ()

    @property
    def width(self) -> int:
        """Return the number of tasks of the widest level."""
        return max((d.sites for d in self.directories), default=1)

    def state_of(self, subquery: int, site: int) -> SiteState:
        """Return the state of a site that runs here."""
        state = self.sites[subquery][site]
        assert state is not None, "a site runs only where its state was sent"
        return state

    @property
    def runs_in_use(self) -> frozenset[str]:
        """Return the names of the runs of all sites, as far as they are known here."""
        states = [state for sites in self.sites for state in sites if state is not None]
        return self.other_runs | {piece.run.name for state in states for piece in state.all_slices()}

    def for_routing(self) -> EpochJob:
        """Return the part of the job that route tasks need: without the state of sites."""
        return replace(self, sites=(), sources=())

    def for_sites(self, here: Callable[[ToSite], bool], with_other_runs: bool) -> EpochJob:
        """Return the job with the state of the sites that run `here`. `with_other_runs`: with the names of the runs of
        other sites, for a process that may run those later, or shares a cache with those that do."""
        states = tuple(
            tuple(state if here(ToSite(number, site)) else None for site, state in enumerate(sites))
            for number, sites in enumerate(self.sites)
        )
        restricted = replace(self, sites=states)
        return (
            replace(restricted, other_runs=self.runs_in_use - restricted.runs_in_use) if with_other_runs else restricted
        )


@dataclass(frozen=True)
class RouteReport:
    """The result of reading a split. `rows_out` counts the rows written to the sink, `numbered` the row numbers used;
    the rows that were read took `bytes_read` bytes in memory."""

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
    bytes_read: int = 0


@dataclass(frozen=True)
class SiteReport:
    """The result of a site step.

    `read` maps each branch of a producer to the attempt whose blob was read. `rows_in` counts the rows that arrived,
    `rows_done` those worked on, `rows_out` those written to the sink, `backlog` those still waiting for work. `pending`
    says whether work is left that was not deferred on purpose. `statistics` has the statistics of groups and keys if
    the job asks for them; `fetched` is how many bytes of state the host has fetched for the site, `flushed` the seconds
    spent on work that could have been deferred. `explosions` are keys with very many result rows.
    """

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
    statistics: SiteStatistics | None = None
    fetched: int = 0
    flushed: float = 0.0
    explosions: tuple[Explosion, ...] = ()


@dataclass(frozen=True)
class LastEpoch:
    """The site reports of the last epoch, the seconds from the end of the epoch before it to its own end, and how many
    of these seconds were idle (`rest`)."""

    reports: tuple[SiteReport, ...] = ()
    seconds: float = 0.0
    rest: float = 0.0


@dataclass(frozen=True)
class TaskFailure:
    """An error that repeating the task would not fix, as a message to the driver."""

    producer: str
    error: PenstockError


Report = RouteReport | SiteReport | TaskFailure

# Given the reports of an epoch's splits, returns the route tasks of the next epoch and the part of its job that they
# need. An executor may start them at once, and must discard them if the next epoch comes with other splits.
LookAhead = Callable[[Sequence[Report]], "tuple[EpochJob, Sequence[RouteTask]] | None"]


def nothing_follows(reports: Sequence[Report]) -> None:
    """Return None: the next epoch is not known yet."""


@dataclass(frozen=True)
class Message:
    """A message of a task: a blob for a site, or a report for the driver."""

    to: ToSite | ToDriver
    content: Blob | Report


@dataclass(frozen=True)
class SiteResult:
    """The result of a site step: blobs for the subqueries that the site feeds, its report, and a future that is done
    when the files that the report names are durable. It has an error if they cannot be made so. A result stays in the
    process of its site."""

    messages: tuple[Message, ...]
    report: SiteReport
    durable: Future[None]


def route_producer(ordinal: int) -> str:
    """Return the name of the route task of a split, as a producer."""
    return f"split-{ordinal}"


def branch_name(producer: str, branch: int) -> str:
    """Return the name of a producer's branch, used by sites to report which attempts they have read."""
    return f"{producer}/{branch}"


def site_producer(subquery: int, site: int) -> str:
    """Return the name of a site's task, as a producer."""
    return f"subquery-{subquery}-site-{site}"


def producers_of(job: EpochJob, feed: Feed) -> list[str]:
    """Return the names of the tasks that a branch starts from: the splits of an input, or the sites of a subquery."""
    if feed.is_input:
        return [route_producer(n) for n, index in enumerate(job.route_inputs) if index == feed.producer]
    return [site_producer(feed.producer, site) for site in range(job.directories[feed.producer].sites)]
