"""Read and write state: read slices, and write runs.

The query determines the columns that a run must have: those of state rows, or of rows in the form in which they are
sent.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from penstock.engine.task.exchange.branches import travelling
from penstock.engine.task.exchange.steps import run_steps
from penstock.engine.task.site.access import OPEN_RUNS, InPlace, RunAccess
from penstock.operators.arrange import hashes_of, times_of
from penstock.operators.protocol import Gridded, Stored
from penstock.plan.program import ROW_NUMBER, Feed, Program, Subquery
from penstock.state.hash_ranges import EVERYTHING, Hashes, HashRange, point
from penstock.state.model import SiteState
from penstock.state.runs import RunFile, Slice
from penstock.storage.durable import Sync, staged_name, sync_file
from penstock.storage.memory import USUAL, Budget
from penstock.storage.run_files import corrupt, write_run


class Storage:
    """The runs of one site in one epoch. `part` makes the names of new runs unique among the sites of an epoch; `sync`
    makes the runs durable; `schema_of` returns the columns that a run must have, if known. `budget` bounds the size of
    runs. A new run is a slice of the range `home`, whichever of its hashes have rows: so slices have few borders. Once
    `merge_bytes` are written, there is no room on the disk to merge runs (None: no bound)."""

    def __init__(
        self,
        folder: Path,
        epoch: int,
        part: str,
        access: RunAccess | None = None,
        sync: Sync = sync_file,
        schema_of: Callable[[RunFile], pa.Schema | None] = lambda run: None,
        budget: Budget = Budget(USUAL),  # noqa: B008 - a frozen value
        home: HashRange = EVERYTHING,
        merge_bytes: int | None = None,
    ) -> None:
        self.budget, self._home = budget, home
        self._folder, self._epoch, self._part, self._sync = folder, epoch, part, sync
        self._access = access or InPlace(folder)
        self._schema_of, self._checked = schema_of, set[str]()
        self._merge_bytes, self._bytes_written = merge_bytes, 0
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

    def hashes(self, piece: Slice) -> Hashes:
        """Return the hashes of a slice's rows; waits for them to be fetched."""
        if (written := self._written.get(piece.run.name)) is not None:
            return written[piece.range.rows(written)]
        return self._access.hashes(piece)

    def hashes_here(self, piece: Slice) -> Hashes | None:
        """Return the hashes of a slice's rows; None if they have not been fetched yet."""
        return self.hashes(piece) if piece.run.name in self._written or self.is_here(piece) else None

    def rows_of(self, piece: Slice) -> int:
        """Return the number of rows in a slice; waits for them to be fetched."""
        return len(self.hashes(piece))

    def size(self, piece: Slice) -> int:
        """Return the bytes of a slice's rows; waits for them to be fetched."""
        return self._access.size(piece)

    def may_have_rows(self, piece: Slice) -> bool:
        """Return whether a slice has rows, or has not been fetched yet."""
        hashes = self.hashes_here(piece)
        return hashes is None or len(hashes) > 0

    def wait_for(self, slices: Collection[Slice], seconds: float | None) -> None:
        """Wait until the slices are fetched, for at most `seconds` (None: no limit)."""
        self._access.wait(slices, seconds)

    def brought(self) -> int:
        """Return the bytes fetched for this site since the last call."""
        return self._access.brought()

    def stored(self, piece: Slice) -> Stored:
        """Return the rows of a slice with the bounds of their times."""
        return Stored(self.read(piece), piece.run.min_time, piece.run.max_time)

    def write(self, port: int, rows: pa.Table, within: HashRange | None = None) -> list[Slice]:
        """Write sorted rows as new runs, and return slices that together cover the range `within` (None: the home of
        the site); nothing if there are no rows. A run is not larger than the budget allows; only runs of one hash
        overlap."""
        if not rows.num_rows:
            return []
        hashes = hashes_of(rows)
        within = _covering(within or self._home, hashes)
        if rows.num_rows == 1 or rows.nbytes <= self.budget.run:
            return [self._write(port, rows, hashes, within)]
        border = _border(hashes)
        below, above = _parts(within, hashes, border)
        return self.write(port, rows[:border], below) + self.write(port, rows[border:], above)

    def _write(self, port: int, rows: pa.Table, hashes: Hashes, within: HashRange) -> Slice:
        name = staged_name(self._epoch, self._part, uuid.uuid4().hex, "arrow")
        run = write_run(self._folder, name, rows, port, self._access.copy, self._sync)
        OPEN_RUNS.wrote(self._folder, run)
        self._written[name] = hashes
        self._bytes_written += run.size
        return Slice(run, within)

    def has_room(self, size: int) -> bool:
        """Return whether `size` bytes may be written to merge runs."""
        return self._merge_bytes is None or self._bytes_written + size <= self._merge_bytes

    def keep_open(self, names: Collection[str]) -> None:
        """Release all runs other than these."""
        self._access.keep_only(names)


def _border(hashes: Hashes) -> int:
    """Return a row to cut sorted rows at, near the middle: one that begins a hash, unless all rows have the same."""
    middle = len(hashes) // 2
    first, end = (int(np.searchsorted(hashes, hashes[middle], side)) for side in ("left", "right"))
    return first or (end if end < len(hashes) else middle)


def _parts(within: HashRange, hashes: Hashes, border: int) -> tuple[HashRange, HashRange]:
    """Return a range cut in two before the row `border`; twice the range of its hash if that has rows on both sides."""
    at = int(hashes[border])
    if at == int(hashes[border - 1]):
        return point(at), point(at)
    return HashRange(within.low, at), HashRange(at, within.high)


def _covering(part: HashRange, hashes: Hashes) -> HashRange:
    """Return the range, extended if rows lie outside of it."""
    return HashRange(min(part.low, int(hashes[0])), max(part.high, int(hashes[-1]) + 1))


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
        self._held_runs = {piece.run.name for piece in state.held}
        self._state_runs = {piece.run.name for piece in state.all_slices()} - self._held_runs
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
