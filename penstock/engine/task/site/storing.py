"""Read and write state: read slices, write runs, and keep the number of runs small.

The query determines the columns that a run must have: those of state rows, or of rows in the form in which they are
sent.

A site reads its runs in place, or through the cache of its host.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from penstock.engine.task.exchange.branches import travelling
from penstock.engine.task.exchange.steps import run_steps
from penstock.engine.wire.job import EpochJob
from penstock.operators.arrange import hashes_of, times_of
from penstock.operators.protocol import Gridded, Stored
from penstock.plan.program import ROW_NUMBER, Feed, Program, Subquery
from penstock.state.hash_ranges import Hashes, HashRange
from penstock.state.model import SiteState
from penstock.state.runs import MOST_SLICES, RunFile, Slice, choose
from penstock.storage.cache.host import Fetcher, Fetching, HostCache
from penstock.storage.durable import Sync, staged_name, sync_file
from penstock.storage.run_files import Copy, OpenRuns, corrupt, write_run

EXECUTOR = "executor"  # instead of a folder: a cache in the folder that Spark gives to each executor
_SPARKS_FOLDERS = "SPARK_LOCAL_DIRS"  # set by Spark for its Python workers: the folders of their executor
OPEN_RUNS = OpenRuns()  # one per process: a reused worker keeps its runs open


class RunAccess(Protocol):
    """Access to the runs that one site reads in one epoch."""

    @property
    def copy(self) -> Copy | None:
        """Return the function that also gets the content of new runs, if any."""
        ...

    def is_here(self, piece: Slice) -> bool:
        """Return whether a slice can be read without waiting."""
        ...

    def read(self, piece: Slice) -> pa.Table:
        """Return the rows of a slice without a copy; wait until they are fetched if necessary."""
        ...

    def wait(self, slices: Collection[Slice], seconds: float | None) -> None:
        """Wait until the slices are fetched, for at most `seconds` (None: no limit)."""
        ...

    def brought(self) -> int:
        """Return the bytes fetched for this site since the last call."""
        ...

    def keep_only(self, names: Collection[str]) -> None:
        """Release all runs other than these: no state refers to them any more."""
        ...


@dataclass(frozen=True)
class InPlace:
    """Access to runs by mapping the files of the checkpoint into memory."""

    folder: Path
    copy: None = None

    def is_here(self, piece: Slice) -> bool:
        return True

    def read(self, piece: Slice) -> pa.Table:
        return OPEN_RUNS.read(self.folder, piece)

    def wait(self, slices: Collection[Slice], seconds: float | None) -> None:
        """Return at once: all runs can be read."""

    def brought(self) -> int:
        return 0

    def keep_only(self, names: Collection[str]) -> None:
        OPEN_RUNS.keep_only(self.folder, names)


@dataclass(frozen=True)
class HostRuns:
    """The cache of a host as this process sees it, for one checkpoint."""

    cache: HostCache
    fetcher: Fetcher


class ThroughCache:
    """Access to runs through the cache of the host. Slices that are not in the cache start being fetched on
    construction."""

    def __init__(self, host: HostRuns, site: str, epoch: int, slices: Sequence[Slice]) -> None:
        self._cache, self._fetcher, self._epoch, self._slices = host.cache, host.fetcher, epoch, slices
        self._cache.needs(site, epoch, slices)
        self._fetcher.begin([piece for piece in slices if not self._cache.is_here(piece)])

    @property
    def copy(self) -> Copy:
        return self._cache.put

    def is_here(self, piece: Slice) -> bool:
        return self._cache.is_here(piece)

    def read(self, piece: Slice) -> pa.Table:
        while (rows := self._cache.read(piece)) is None:
            self._fetcher.begin([piece])
            self._fetcher.wait([piece], None)
        return rows

    def wait(self, slices: Collection[Slice], seconds: float | None) -> None:
        self._fetcher.wait(slices, seconds)

    def brought(self) -> int:
        return self._fetcher.brought(self._slices)

    def keep_only(self, names: Collection[str]) -> None:
        self._cache.keep_only(names, self._epoch)
        self._fetcher.keep_only(names)


HOSTS: dict[tuple[Path, Path], HostRuns] = {}  # by (cache folder, runs folder); one of each per process


def cache_root(setting: str) -> Path | None:
    """Return the folder that a setting names; None if runs are read from the checkpoint directly."""
    if setting != EXECUTOR:
        return Path(setting) if setting else None
    folders = os.environ.get(_SPARKS_FOLDERS, "")
    return Path(folders.split(",")[0]) / "penstock-runs" if folders else None


def run_access(job: EpochJob, site: str, slices: Sequence[Slice]) -> RunAccess:
    """Return the access for a site that needs these slices, which are fetched in the given order."""
    root = cache_root(job.cache)
    if root is None:
        return InPlace(job.runs)
    if (root, job.runs) not in HOSTS:
        cache = HostCache(root, job.runs, job.cache_bytes)
        HOSTS[root, job.runs] = HostRuns(cache, Fetching(cache.fetch))
    return ThroughCache(HOSTS[root, job.runs], site, job.epoch, slices)


Combine = Callable[[int, Sequence[pa.Table]], pa.Table]


class Storage:
    """The runs of one site in one epoch. `part` makes the names of new runs unique among the sites of an epoch; `sync`
    makes the runs durable; `schema_of` returns the columns that a run must have, if known."""

    def __init__(
        self,
        folder: Path,
        epoch: int,
        part: str,
        access: RunAccess | None = None,
        sync: Sync = sync_file,
        schema_of: Callable[[RunFile], pa.Schema | None] = lambda run: None,
    ) -> None:
        self._folder, self._epoch, self._part, self._sync = folder, epoch, part, sync
        self._access = access or InPlace(folder)
        self._schema_of, self._checked = schema_of, set[str]()
        self._written: dict[str, Hashes] = {}  # by run: statistics need not open a run that was just written

    def read(self, piece: Slice) -> pa.Table:
        """Return the rows of a slice; check the columns of its run when it is read first."""
        rows = self._access.read(piece)
        if piece.run.name not in self._checked:  # once is enough: a run does not change
            self._check(piece.run, rows.schema)
            self._checked.add(piece.run.name)
        return rows

    def _check(self, run: RunFile, found: pa.Schema) -> None:
        wanted = self._schema_of(run)
        if wanted is not None and not found.equals(wanted):
            raise corrupt(self._folder / run.name, f"its columns are {_columns(found)}, not {_columns(wanted)}")

    def is_here(self, piece: Slice) -> bool:
        """Return whether the rows of a slice can be read without waiting for a fetch."""
        return self._access.is_here(piece)

    def rows_of(self, piece: Slice) -> int:
        """Return the number of rows in a slice; waits for them to be fetched."""
        return int(self.read(piece).num_rows)

    def hashes_here(self, piece: Slice) -> Hashes | None:
        """Return the hashes of a slice's rows; None if they have not been fetched yet."""
        if (written := self._written.get(piece.run.name)) is not None:
            return written[piece.range.rows(written)]
        return hashes_of(self.read(piece)) if self.is_here(piece) else None

    def may_have_rows(self, piece: Slice) -> bool:
        """Return whether a slice has rows, or has not been fetched yet."""
        return not self.is_here(piece) or self.read(piece).num_rows > 0

    def wait_for(self, slices: Collection[Slice], seconds: float | None) -> None:
        """Wait until the slices are fetched, for at most `seconds` (None: no limit)."""
        self._access.wait(slices, seconds)

    def brought(self) -> int:
        """Return the bytes fetched for this site since the last call."""
        return self._access.brought()

    def stored(self, piece: Slice) -> Stored:
        """Return the rows of a slice with the bounds of their times."""
        return Stored(self.read(piece), piece.run.min_time, piece.run.max_time)

    def write(self, port: int, rows: pa.Table) -> list[Slice]:
        """Write sorted rows as a new run and return it as one slice; return nothing if there are no rows."""
        if not rows.num_rows:
            return []
        name = staged_name(self._epoch, self._part, uuid.uuid4().hex, "arrow")
        run = write_run(self._folder, name, rows, port, self._access.copy, self._sync)
        OPEN_RUNS.wrote(self._folder, run)
        hashes = self._written[name] = hashes_of(rows)
        return [Slice(run, HashRange(int(hashes[0]), int(hashes[-1]) + 1))]

    def compacted(
        self, slices: list[Slice], port: int, expired_below: int, span: int, combine: Combine, may: Callable[[], bool]
    ) -> list[Slice]:
        """Return the slices of one port without those that have expired, and with neighbours rewritten as one run.

        Rewrites while `may` returns True, or while there are more than `MOST_SLICES` slices. Slices that have not been
        fetched yet are not rewritten.
        """
        slices = [piece for piece in slices if piece.run.max_time >= expired_below]
        for group in choose(slices, expired_below, span):
            if not may() and len(slices) <= MOST_SLICES:
                break
            if not all(map(self.is_here, group)):
                continue
            rewritten = self._rewritten(group, port, expired_below, combine)
            slices = [piece for piece in slices if piece not in group] + rewritten
        return slices

    def _rewritten(self, group: Sequence[Slice], port: int, expired_below: int, combine: Combine) -> list[Slice]:
        return self.write(port, alive(combine(port, [self.read(piece) for piece in group]), expired_below))

    def keep_open(self, names: Collection[str]) -> None:
        """Release all runs other than these."""
        self._access.keep_only(names)


def alive(rows: pa.Table, expired_below: int) -> pa.Table:
    """Return the state rows that have not expired; the table itself if all of them are alive."""
    if not rows.num_rows:
        return rows
    needed = times_of(rows) >= expired_below
    return rows if needed.all() else rows.filter(pa.array(needed))


def _columns(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)


def of_port(slices: Iterable[Slice], port: int) -> list[Slice]:
    """Return the slices whose runs belong to a port."""
    return [piece for piece in slices if piece.run.port == port]


def spread_anew(storage: Storage, operator: Gridded, state: SiteState, homes: Sequence[HashRange]) -> SiteState:
    """Redistribute the state of a site over its cells after the grid has changed, and write it. Each slice becomes its
    own run, so that the slices expire as before."""
    storage.wait_for((*state.slices, *state.held), None)
    slices, held = (
        tuple(new for old in pieces for new in _rewritten(storage, operator, old, homes))
        for pieces in (state.slices, state.held)
    )
    return replace(state, slices=slices, held=held)


def _rewritten(storage: Storage, operator: Gridded, piece: Slice, homes: Sequence[HashRange]) -> list[Slice]:
    return storage.write(piece.run.port, operator.respread(piece.run.port, storage.read(piece), homes))


class RunSchemas:
    """The schemas of the runs that a site begins an epoch with. The schema of held rows is computed on first use, by
    running the steps of their branch on an empty table."""

    def __init__(self, program: Program, subquery: Subquery, state: SiteState) -> None:
        self._program, self._subquery = program, subquery
        self._state_runs = {piece.run.name for piece in (*state.slices, *state.pending)}
        self._held_runs = {piece.run.name for piece in state.held}
        self._travelled: dict[int, pa.Schema] = {}  # by port

    def of(self, run: RunFile) -> pa.Schema | None:
        """Return the schema of a run; None if the site did not begin the epoch with it."""
        if run.name in self._state_runs:
            return self._subquery.operator.state_schema(run.port)
        if run.name not in self._held_runs:
            return None
        if run.port not in self._travelled:
            self._travelled[run.port] = _travelled_schema(self._program, self._subquery, run.port)
        return self._travelled[run.port]


def _travelled_schema(program: Program, subquery: Subquery, port: int) -> pa.Schema:
    """Return the schema of rows sent to a port; all branches that lead to the port have the same schema."""
    feed = next(feed for feed in program.feeds(subquery.number) if feed.branch.port == port)
    rows = run_steps(_produced(program, feed).empty_table(), feed.branch.steps)
    return travelling(subquery, port, rows, None).schema


def _produced(program: Program, feed: Feed) -> pa.Schema:
    """Return the schema of the rows that a producer gives to its branches."""
    if not feed.is_input:
        return program.subqueries[feed.producer].operator.result_schema
    source = program.inputs[feed.producer]
    schema = pa.schema([source.schema.field(name) for name in source.columns])
    return schema.append(pa.field(ROW_NUMBER, pa.int64())) if source.numbered else schema
