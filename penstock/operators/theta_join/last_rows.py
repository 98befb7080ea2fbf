"""The theta join over row windows: each row is joined with the last n rows of the other input before it.

"Before" is by time, then by input, then by row number. So rows wait until both marks have passed them and are then
joined in that order. The partners of a row depend on how many other rows arrived in between, so every cell holds all
rows; but each row probes in only one cell.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.errors import QueryError
from penstock.expr.tree import Expr
from penstock.operators.arrange import hashes_of, times_of
from penstock.operators.protocol import (
    UNCOUNTED,
    ClosingOperator,
    OutputCounts,
    Portion,
    Stored,
    WorkResult,
)
from penstock.operators.theta_join.condition import check_condition
from penstock.operators.theta_join.grid import CODE, GridCells, OnGrid, codes_of, lanes_of, with_code
from penstock.operators.theta_join.pairs import Encounter, joined
from penstock.operators.theta_join.schema import check_inputs, stored_columns
from penstock.progress.mark import BEGIN, END, MAX_TIME, Mark, Marks
from penstock.state.grid import Grid
from penstock.state.hash_ranges import point
from penstock.types import as_array, require_column, time_values

ROW_COLUMN = "#row"  # the row number within the input


@dataclass(frozen=True)
class LastRowsJoin(OnGrid, ClosingOperator):
    """The inner join of two inputs on an arbitrary condition, where each row is joined with the last `last_rows` rows
    of the other input.

    `schemas`, `times`, `payload` and `condition` are as in GridJoin; both schemas have the row number as #row. The join
    closes up to M, the lesser of the two marks. There are two kinds of state rows: waiting rows, whose #time is their
    own time, and copies of the last joined rows, which are carried with M as #time. So rows with a #time below M are no
    longer needed: they were joined, or carried to an earlier M. `grid` is as in GridJoin, but only its number of cells
    matters.
    """

    schemas: tuple[pa.Schema, pa.Schema]
    times: tuple[str, str]
    payload: tuple[tuple[str, ...], tuple[str, ...]]
    last_rows: tuple[int, int]
    condition: Expr | None
    grid: Grid = (1, 1)
    follows_sites: bool = False

    def __post_init__(self) -> None:
        check_inputs(self.schemas, self.times, self.payload)
        check_condition(self.condition, self.schemas)
        for schema in self.schemas:
            require_column(schema, ROW_COLUMN, "the inputs of a join over the last rows")
        if min(self.last_rows) < 0:
            raise QueryError(
                "a join cannot look back at a negative number of rows",
                detail=f"{min(self.last_rows)} rows",
                hint="use 0 rows or more, as in last_rows=100 or [ROWS 100]",
            )

    def state_schema(self, port: int) -> pa.Schema:
        needed = {*stored_columns(self.schemas[port], self.payload[port], self.condition), self.times[port], ROW_COLUMN}
        return with_code(pa.schema([field for field in self.schemas[port] if field.name in needed]))

    def prepare(self, port: int, rows: pa.Table) -> pa.Table:
        return self.prepare_arranged(port, self.arrange(port, rows))

    def arrange(self, port: int, rows: pa.Table) -> pa.Table:
        rows, times = rows.select(self.schemas[port].names), time_values(rows.column(self.times[port]))
        return self.cells.spread(port, rows, times, codes_of(rows.drop_columns([ROW_COLUMN])))

    @property
    def cells(self) -> GridCells:
        """Return the cells, each of which holds all rows."""
        return GridCells(self.grid, everywhere=True)

    def grid_for(self, sites: int) -> Grid:
        return (1, sites) if self.follows_sites else self.grid

    def due(self, after: Marks, upto: Marks, least: tuple[int | None, ...]) -> bool:
        """Return whether the lesser mark advances and there are rows. Even if none is complete, carried rows must be
        carried on."""
        return min(after) < min(upto) and any(time is not None for time in least)

    def work(self, portion: Portion, counts: OutputCounts = UNCOUNTED) -> WorkResult:
        """Join the rows that are complete at `upto` but were not at `after`, and carry the last rows of each port to
        `upto`."""
        after, upto = min(portion.after), min(portion.upto)
        nothing = tuple(self.state_schema(port).empty_table() for port in (0, 1))
        if after >= upto:
            return WorkResult((), nothing)
        cells = [self._cell(number, portion, after, upto) for number in self._cells_of(portion)]
        kept = [[nothing[port], *(self._carried(port, cell, upto) for cell in cells)] for port in (0, 1)]
        return WorkResult(
            (piece for cell in cells for piece in self._results(cell, counts)), tuple(map(pa.concat_tables, kept))
        )

    def _cells_of(self, portion: Portion) -> list[int]:
        """Return the numbers of the cells with rows, in order of their hashes."""
        hashes = [np.unique(hashes_of(piece.rows)) for stored in portion.stored for piece in stored]
        found = np.unique(np.concatenate([np.zeros(0, np.uint64), *hashes]))
        return np.searchsorted(self.cells.hashes, found).tolist()  # type: ignore[no-any-return]

    def expired_below(self, port: int, marks: Marks) -> int:
        joined_up_to = min(marks)
        return MAX_TIME if joined_up_to.ended else joined_up_to.at

    def span(self, port: int) -> int:
        return 1

    def output_marks(self, marks: Marks) -> Marks:
        """Return the marks on each time by itself, then the joint marks. One row of a future pair is not below M, which
        gives the joint marks. The other may be arbitrarily old, so a time by itself has no mark before the end."""
        alone = END if min(marks).ended else BEGIN
        return (alone, alone, min(marks), min(marks))

    def _cell(self, number: int, portion: Portion, after: Mark, upto: Mark) -> _Cell:
        """Return the rows of a cell that are needed between two marks."""
        histories = (self._history(port, number, portion.stored[port], after, upto) for port in (0, 1))
        return _Cell(number, (next(histories), next(histories)))

    def _history(self, port: int, cell: int, stored: Sequence[Stored], after: Mark, upto: Mark) -> _History:
        """Return the rows of one input that were carried to `after`, and those from `after` to `upto`."""
        here = point(int(self.cells.hashes[cell]))
        pieces = [piece.rows[here.rows(hashes_of(piece.rows))] for piece in stored if piece.largest >= after.at]
        useful = [self._useful(port, rows, after, upto) for rows in pieces]
        rows = pa.concat_tables([self.state_schema(port).empty_table(), *useful]).combine_chunks()
        times = time_values(rows.column(self.times[port]))
        order = np.lexsort((as_array(rows.column(ROW_COLUMN)).to_numpy(), times))
        carried = int(np.count_nonzero(times < times_of(rows)))
        return _History(rows.take(order), times[order], carried)

    def _useful(self, port: int, rows: pa.Table, after: Mark, upto: Mark) -> pa.Table:
        """Return the rows that were carried to `after` or are waiting, with a time below `upto`."""
        useful = times_of(rows) >= after.at
        if not upto.ended:
            useful &= time_values(rows.column(self.times[port])) < upto.at
        return rows.filter(pa.array(useful))

    def _carried(self, port: int, cell: _Cell, upto: Mark) -> pa.Table:
        """Return the last joined rows, for joins with rows from `upto` on."""
        if upto.ended:
            return self.state_schema(port).empty_table()
        all_rows = cell.histories[port].rows
        rows = all_rows.slice(max(0, all_rows.num_rows - self.last_rows[port]))
        return rows.set_column(1, rows.schema.field(1), pa.array(np.full(rows.num_rows, upto.at)))

    def _results(self, cell: _Cell, counts: OutputCounts) -> Iterator[pa.Table]:
        """Yield the results of a cell."""
        hash_ = int(self.cells.hashes[cell.number])
        for port in (0, 1):
            encounter = self._encounter(port, cell.number, cell.histories[port], cell.histories[1 - port])
            for pairs in joined(encounter, self._parts, self.result_schema):
                counts.add_of_hash(hash_, pairs.num_rows)
                yield pairs

    def _encounter(self, port: int, cell: int, own: _History, other: _History) -> Encounter:
        """Return the fresh rows of a port that probe in this cell, with the ranges of their partners. Of rows with
        equal times, the row of port 0 comes first."""
        codes = np.asarray(as_array(own.rows.column(CODE)).to_numpy(), dtype=np.uint16)[own.carried :]
        mine = np.flatnonzero(lanes_of(codes, len(self.cells.hashes)) == cell) + own.carried
        times = own.times[mine]
        before = np.searchsorted(other.times, times, "left" if port == 0 else "right")
        lo = np.maximum(before - self.last_rows[1 - port], 0)
        return Encounter(port, own.rows.take(mine), other.rows, lo, before)


@dataclass(frozen=True)
class _History:
    """Rows of one input in order of (time, row number). The first `carried` of them were joined before."""

    rows: pa.Table
    times: np.ndarray[tuple[int], np.dtype[np.int64]]
    carried: int


@dataclass(frozen=True)
class _Cell:
    """A cell's rows of both inputs."""

    number: int
    histories: tuple[_History, _History]
