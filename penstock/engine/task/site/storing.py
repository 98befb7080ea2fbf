"""State on its way to and from files: reading slices, writing runs, and keeping the number of runs small.

The columns that a run must have are known by the query: those of state rows, or of rows as they travelled.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from penstock.checkpoint.manifest import SiteState
from penstock.checkpoint.store import staged_name
from penstock.engine.task.exchange.branches import travelling
from penstock.engine.task.exchange.steps import run_steps
from penstock.engine.task.site.run_access import OPEN_RUNS, InPlace, RunAccess
from penstock.operators.arrange import hashes_of, times_of
from penstock.operators.protocol import Gridded, Stored
from penstock.plan.program import ROW_NUMBER, Feed, Program, Subquery
from penstock.state.compaction import MOST_SLICES, choose
from penstock.state.hash_ranges import Hashes, HashRange
from penstock.state.runs import Run, Slice
from penstock.storage.durable import Sync, sync_file
from penstock.storage.run_files import corrupt, write_run

Combine = Callable[[int, Sequence[pa.Table]], pa.Table]


class Storage:
    """The runs of one site in one epoch. `part` tells the sites of an epoch apart in the names of new runs; `sync` is
    how they are made durable; `schema_of` tells the columns that a run must have, where they are known."""

    def __init__(
        self,
        folder: Path,
        epoch: int,
        part: str,
        access: RunAccess | None = None,
        sync: Sync = sync_file,
        schema_of: Callable[[Run], pa.Schema | None] = lambda run: None,
    ) -> None:
        self._folder, self._epoch, self._part, self._sync = folder, epoch, part, sync
        self._access = access or InPlace(folder)
        self._schema_of, self._checked = schema_of, set[str]()
        self._written: dict[str, Hashes] = {}  # by run: what is written is not opened only to be counted

    def read(self, piece: Slice) -> pa.Table:
        rows = self._access.read(piece)
        if piece.run.name not in self._checked:  # looking once is enough: a run does not change
            self._check(piece.run, rows.schema)
            self._checked.add(piece.run.name)
        return rows

    def _check(self, run: Run, found: pa.Schema) -> None:
        wanted = self._schema_of(run)
        if wanted is not None and not found.equals(wanted):
            raise corrupt(self._folder / run.name, f"its columns are {_columns(found)}, not {_columns(wanted)}")

    def is_here(self, piece: Slice) -> bool:
        """Whether its rows can be read without waiting for them to be fetched."""
        return self._access.is_here(piece)

    def rows_of(self, piece: Slice) -> int:
        return int(self.read(piece).num_rows)

    def hashes_here(self, piece: Slice) -> Hashes | None:
        """Those of its rows; None where they have yet to be fetched."""
        if (written := self._written.get(piece.run.name)) is not None:
            return written[piece.range.rows(written)]
        return hashes_of(self.read(piece)) if self.is_here(piece) else None

    def may_have_rows(self, piece: Slice) -> bool:
        return not self.is_here(piece) or self.read(piece).num_rows > 0

    def wait_for(self, slices: Collection[Slice], seconds: float | None) -> None:
        self._access.wait(slices, seconds)

    def brought(self) -> int:
        """The bytes that were fetched for this site since it last told."""
        return self._access.brought()

    def stored(self, piece: Slice) -> Stored:
        return Stored(self.read(piece), piece.run.min_time, piece.run.max_time)

    def write(self, port: int, rows: pa.Table) -> list[Slice]:
        """A new run of sorted rows, as one slice; nothing where there are no rows."""
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
        """Slices of one port without those that have expired, and with neighbours rewritten as one run while `may`
        says so; always, where there are far too many. What has yet to be fetched is left as it is."""
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
        self._access.keep_only(names)


def alive(rows: pa.Table, expired_below: int) -> pa.Table:
    """The state rows that have not expired; the table itself if that is all of them."""
    if not rows.num_rows:
        return rows
    needed = times_of(rows) >= expired_below
    return rows if needed.all() else rows.filter(pa.array(needed))


def _columns(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)


def of_port(slices: Iterable[Slice], port: int) -> list[Slice]:
    return [piece for piece in slices if piece.run.port == port]


def spread_anew(storage: Storage, operator: Gridded, state: SiteState, homes: Sequence[HashRange]) -> SiteState:
    """What a site was given when the grid changed, spread over its cells and written. Each slice becomes a run of its
    own, so that they expire as they would have."""
    storage.wait_for((*state.slices, *state.held), None)
    slices, held = (
        tuple(new for old in pieces for new in _rewritten(storage, operator, old, homes))
        for pieces in (state.slices, state.held)
    )
    return replace(state, slices=slices, held=held)


def _rewritten(storage: Storage, operator: Gridded, piece: Slice, homes: Sequence[HashRange]) -> list[Slice]:
    return storage.write(piece.run.port, operator.respread(piece.run.port, storage.read(piece), homes))


class RunSchemas:
    """Those of the runs that a site begins an epoch with. What held rows look like is found out when the first of them
    are read: no rows at all go the way that they went."""

    def __init__(self, program: Program, subquery: Subquery, state: SiteState) -> None:
        self._program, self._subquery = program, subquery
        self._state_runs = {piece.run.name for piece in (*state.slices, *state.pending)}
        self._held_runs = {piece.run.name for piece in state.held}
        self._travelled: dict[int, pa.Schema] = {}  # by port

    def of(self, run: Run) -> pa.Schema | None:
        """Return the schema of a run; None where it is not one of them."""
        if run.name in self._state_runs:
            return self._subquery.operator.state_schema(run.port)
        if run.name not in self._held_runs:
            return None
        if run.port not in self._travelled:
            self._travelled[run.port] = _travelled_schema(self._program, self._subquery, run.port)
        return self._travelled[run.port]


def _travelled_schema(program: Program, subquery: Subquery, port: int) -> pa.Schema:
    """Return the schema of rows on their way to a port; all branches that lead there agree on it."""
    feed = next(feed for feed in program.feeds(subquery.number) if feed.branch.port == port)
    rows = run_steps(_produced(program, feed).empty_table(), feed.branch.steps)
    return travelling(subquery, port, rows, None).schema


def _produced(program: Program, feed: Feed) -> pa.Schema:
    """What a producer gives to its branches."""
    if not feed.is_input:
        return program.subqueries[feed.producer].operator.result_schema
    source = program.inputs[feed.producer]
    schema = pa.schema([source.schema.field(name) for name in source.columns])
    return schema.append(pa.field(ROW_NUMBER, pa.int64())) if source.numbered else schema
