"""The grid of a theta join: the cells in which each row is needed.

A row of port 0 belongs to one row of the grid and is needed in all its cells; a row of port 1 belongs to one column. So
each pair of rows meets in exactly one cell. A lane is a row of the grid for port 0 and a column for port 1. The lane of
a row follows from its code, a number stored with it, so it can be computed for another grid as well.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.errors import QueryError
from penstock.expr.tree import Expr
from penstock.kernels.arrays import Indices, Times, Words
from penstock.kernels.hash import hash_columns
from penstock.operators.arrange import arranged_schema, hashes_of, merged, order_of, times_of
from penstock.operators.protocol import Gridded, TwoPorts
from penstock.operators.theta_join.condition import Conjunct, parts_of
from penstock.operators.theta_join.schema import Payload, Schemas, output_time, result_schema
from penstock.state.grid import Grid, cell_hashes
from penstock.state.hash_ranges import HashRange, point
from penstock.state.runs import HASH, TIME
from penstock.type_names import is_nested
from penstock.types import as_array

CODE = "#code"  # the column with the code of a row
_CODE_BITS = 16
RowCodes = npt.NDArray[np.uint16]


def check_grid(grid: Grid) -> None:
    """Raise QueryError if the grid has no cells."""
    rows, columns = grid
    if rows < 1 or columns < 1:
        raise QueryError(
            "the grid of a theta join has no cells",
            detail=f"it is {rows} x {columns}",
            hint="use at least one row and one column, as in 2 x 2",
        )


def codes_of(rows: pa.Table, hash_bits: int = 64) -> RowCodes:
    """Return the code of each row: bits of a hash of all its values that are not nested, so that it is the same when
    the row is read again."""
    flat = [column for column in rows.columns if not is_nested(column.type)]
    hashes = hash_columns(flat, hash_bits, length=rows.num_rows)
    return (hashes >> np.uint64(64 - _CODE_BITS)).astype(np.uint16)


def with_code(schema: pa.Schema) -> pa.Schema:
    """Return the schema of rows that are stored in cells."""
    return arranged_schema(schema.append(pa.field(CODE, pa.uint16())))


def lanes_of(codes: RowCodes, lanes: int) -> Indices:
    """Return the lane of each row, among `lanes` lanes."""
    return codes.astype(np.int64) * lanes >> _CODE_BITS


@dataclass(frozen=True)
class GridCells:
    """The cells of a grid. `everywhere`: all rows are needed in all cells, and each port has one lane."""

    grid: Grid
    everywhere: bool = False

    @cached_property
    def hashes(self) -> Words:
        """Return the hash of each cell."""
        return cell_hashes(self.grid)

    def lanes(self, port: int) -> int:
        """Return the number of lanes of a port."""
        return 1 if self.everywhere else self.grid[port]

    def lane_of_cells(self, port: int) -> Indices:
        """Return, for each cell, the lane whose rows it needs."""
        cells = np.arange(self.grid[0] * self.grid[1])
        if self.everywhere:
            return np.zeros_like(cells)
        return cells // self.grid[1] if port == 0 else cells % self.grid[1]

    def at_home(self, homes: Sequence[HashRange]) -> Indices:
        """Return the numbers of the cells in the given ranges."""
        inside = [any(home.low <= hash_ < home.high for home in homes) for hash_ in self.hashes.tolist()]
        return np.flatnonzero(inside)

    def spread(
        self, port: int, rows: pa.Table, times: Times, codes: RowCodes, homes: Sequence[HashRange] | None = None
    ) -> pa.Table:
        """Return a copy of each row for every cell that needs it, of all cells or of those in `homes`, with #hash and
        #time before its columns and its code as the last column; sorted."""
        lanes = lanes_of(codes, self.lanes(port))
        order = np.lexsort((times, lanes))
        bounds = np.searchsorted(lanes[order], np.arange(self.lanes(port) + 1))
        cells = np.arange(len(self.hashes)) if homes is None else self.at_home(homes)
        needed = [order[bounds[lane] : bounds[lane + 1]] for lane in self.lane_of_cells(port)[cells].tolist()]
        chosen = np.concatenate([np.zeros(0, np.int64), *needed])
        hashes = np.repeat(self.hashes[cells], [len(part) for part in needed])
        columns = [pa.array(hashes), pa.array(times[chosen]), *rows.take(pa.array(chosen)).columns]
        return pa.table([*columns, pa.array(codes[chosen])], schema=with_code(rows.schema))

    def respread(self, port: int, rows: pa.Table, homes: Sequence[HashRange]) -> pa.Table:
        """Return copies, as `spread` does, of rows from the cells of another grid, each of which is given once."""
        codes = np.asarray(as_array(rows.column(CODE)).to_numpy(), dtype=np.uint16)
        return self.spread(port, rows.drop_columns([HASH, TIME, CODE]), times_of(rows), codes, homes)

    def sent(self, port: int, homes: Sequence[HashRange]) -> list[HashRange]:
        """Return the first cell of each lane in the given ranges, as ranges."""
        return [point(hash_) for hash_ in sorted(self._first_of_lanes(port, self.at_home(homes)).values())]

    def received(self, port: int, rows: pa.Table, homes: Sequence[HashRange]) -> pa.Table:
        """Copy the rows of the cells that were sent to all cells in the same ranges; sorted."""
        hashes, cells = hashes_of(rows), self.at_home(homes)
        sent = {lane: point(hash_).rows(hashes) for lane, hash_ in self._first_of_lanes(port, cells).items()}
        found = [sent[lane] for lane in self.lane_of_cells(port)[cells].tolist()]
        places = np.concatenate([np.zeros(0, np.int64), *(np.arange(part.start, part.stop) for part in found)])
        new = np.repeat(self.hashes[cells], [part.stop - part.start for part in found])
        copies = rows.take(pa.array(places))
        return copies.set_column(0, copies.schema.field(0), pa.array(new))

    def holding(self, port: int, other: GridCells, homes: Sequence[HashRange]) -> list[HashRange]:
        """Return one cell of each lane whose rows are needed by the cells of another grid in `homes`."""
        mine, theirs = self.lanes(port), other.lanes(port)
        wanted = set(other.lane_of_cells(port)[other.at_home(homes)].tolist())
        first = self._first_of_lanes(port, np.arange(len(self.hashes)))
        overlap = {
            a for a in range(mine) for b in wanted if a * theirs < (b + 1) * mine and b * mine < (a + 1) * theirs
        }
        return sorted(point(hash_) for lane, hash_ in first.items() if lane in overlap)

    def _first_of_lanes(self, port: int, cells: Indices) -> dict[int, int]:
        """Return the hash of the first of the given cells in each lane, by lane."""
        first: dict[int, int] = {}
        for cell, lane in zip(cells.tolist(), self.lane_of_cells(port)[cells].tolist(), strict=True):
            first.setdefault(lane, int(self.hashes[cell]))
        return first


class OnGrid(TwoPorts, Gridded):
    """Base of theta joins: what they share, and what the engine asks about their grid, which its cells answer.

    `schemas`, `times`, `payload` and `condition` are as in GridJoin.
    """

    schemas: Schemas
    times: tuple[str, str]
    payload: Payload
    condition: Expr | None
    grid: Grid

    @abstractmethod
    def state_schema(self, port: int) -> pa.Schema:
        """Return the schema of the port's state rows."""

    @property
    def result_schema(self) -> pa.Schema:
        return result_schema(self.schemas, self.payload)

    @property
    def reach(self) -> int:
        return 0  # all arithmetic on times saturates

    @property
    def output_times(self) -> tuple[str, ...]:
        """Return both times by themselves, then the two joint ones."""
        return (*map(output_time, self.times, self.payload), "", "")

    def prepare_arranged(self, port: int, arranged: pa.Table) -> pa.Table:
        """Convert arranged rows, which are already copied to their cells, to sorted state rows."""
        rows = arranged.select(self.state_schema(port).names)
        order = order_of(rows)
        return rows if order is None else rows.take(order)

    def combine(self, port: int, tables: Sequence[pa.Table]) -> pa.Table:
        return merged(tables, self.state_schema(port))

    @cached_property
    def _parts(self) -> tuple[Conjunct, ...]:
        return parts_of(self.condition, self.schemas)

    @property
    def cells(self) -> GridCells:
        return GridCells(self.grid)

    def on(self, grid: Grid) -> Self:
        return replace(self, grid=grid)  # type: ignore[type-var]

    def sent(self, port: int, ranges: Sequence[HashRange]) -> list[HashRange]:
        return self.cells.sent(port, ranges)

    def received(self, port: int, rows: pa.Table, ranges: Sequence[HashRange]) -> pa.Table:
        return self.cells.received(port, rows, ranges)

    def holding(self, port: int, grid: Grid, ranges: Sequence[HashRange]) -> list[HashRange]:
        return self.cells.holding(port, self.on(grid).cells, ranges)

    def respread(self, port: int, rows: pa.Table, ranges: Sequence[HashRange]) -> pa.Table:
        return self.cells.respread(port, rows, ranges)
