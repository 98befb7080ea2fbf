"""The grid of a theta join: in which cells a row is needed.

A row of port 0 belongs to one row of the grid and is needed in all cells of it, a row of port 1 to one column. So each
pair of rows meets in exactly one cell. A lane is a row of the grid to port 0, a column to port 1. Which one a row
belongs to follows from its code, a number that is stored with it: so it is known again under another grid.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.errors import QueryError
from penstock.kernels.arrays import Indices, Times, Words
from penstock.kernels.hash import as_array, hash_columns
from penstock.operators.arrange import arranged_schema, hashes_of, times_of
from penstock.state.grid import Grid, cell_hashes
from penstock.state.hash_ranges import HashRange, point
from penstock.state.runs import HASH, TIME
from penstock.types import is_nested

CODE = "#code"  # the column with the code of a row
_CODE_BITS = 16
Codes = npt.NDArray[np.uint16]


def check_grid(grid: Grid) -> None:
    rows, columns = grid
    if rows < 1 or columns < 1:
        raise QueryError("the grid of a theta join has no cells", detail=f"it is {rows} x {columns}", hint="2 x 2")


def codes_of(rows: pa.Table, hash_bits: int = 64) -> Codes:
    """The code of each row: from a hash of all its flat values, so that it is the same when it is read again."""
    flat = [column for column in rows.columns if not is_nested(column.type)]
    hashes = hash_columns(flat, hash_bits, length=rows.num_rows)
    return (hashes >> np.uint64(64 - _CODE_BITS)).astype(np.uint16)


def with_code(schema: pa.Schema) -> pa.Schema:
    """The schema of rows that are stored in cells."""
    return arranged_schema(schema.append(pa.field(CODE, pa.uint16())))


def lanes_of(codes: Codes, lanes: int) -> Indices:
    """Which of so many lanes each row belongs to."""
    return codes.astype(np.int64) * lanes >> _CODE_BITS


@dataclass(frozen=True)
class GridCells:
    """The cells of a grid. `everywhere`: all rows are needed in all of them, and each port has one lane."""

    grid: Grid
    everywhere: bool = False

    @cached_property
    def hashes(self) -> Words:
        return cell_hashes(self.grid)

    def lanes(self, port: int) -> int:
        return 1 if self.everywhere else self.grid[port]

    def lane_of_cells(self, port: int) -> Indices:
        """For each cell the lane whose rows it needs."""
        cells = np.arange(self.grid[0] * self.grid[1])
        if self.everywhere:
            return np.zeros_like(cells)
        return cells // self.grid[1] if port == 0 else cells % self.grid[1]

    def at_home(self, homes: Sequence[HashRange]) -> Indices:
        """The numbers of the cells that lie in some ranges."""
        inside = [any(home.low <= hash_ < home.high for home in homes) for hash_ in self.hashes.tolist()]
        return np.flatnonzero(inside)

    def spread(
        self, port: int, rows: pa.Table, times: Times, codes: Codes, homes: Sequence[HashRange] | None = None
    ) -> pa.Table:
        """A copy of each row for every cell that needs it, of all cells or of those at home, behind #hash and #time,
        sorted, with its code as the last column."""
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
        """The same for rows of cells of another grid, each once."""
        codes = np.asarray(as_array(rows.column(CODE)).to_numpy(), dtype=np.uint16)
        return self.spread(port, rows.drop_columns([HASH, TIME, CODE]), times_of(rows), codes, homes)

    def sent(self, port: int, homes: Sequence[HashRange]) -> list[HashRange]:
        """The first of the cells of each lane that lie in some ranges, each as a range."""
        return [point(hash_) for hash_ in sorted(self._first_of_lanes(port, self.at_home(homes)).values())]

    def received(self, port: int, rows: pa.Table, homes: Sequence[HashRange]) -> pa.Table:
        """The rows of the cells that were sent, copied to all cells that lie in the same ranges; sorted."""
        hashes, cells = hashes_of(rows), self.at_home(homes)
        sent = {lane: point(hash_).rows(hashes) for lane, hash_ in self._first_of_lanes(port, cells).items()}
        found = [sent[lane] for lane in self.lane_of_cells(port)[cells].tolist()]
        places = np.concatenate([np.zeros(0, np.int64), *(np.arange(part.start, part.stop) for part in found)])
        new = np.repeat(self.hashes[cells], [part.stop - part.start for part in found])
        copies = rows.take(pa.array(places))
        return copies.set_column(0, copies.schema.field(0), pa.array(new))

    def holding(self, port: int, other: GridCells, homes: Sequence[HashRange]) -> list[HashRange]:
        """One cell of each lane that has rows which cells of another grid need, those in some ranges."""
        mine, theirs = self.lanes(port), other.lanes(port)
        wanted = set(other.lane_of_cells(port)[other.at_home(homes)].tolist())
        first = self._first_of_lanes(port, np.arange(len(self.hashes)))
        overlap = {
            a for a in range(mine) for b in wanted if a * theirs < (b + 1) * mine and b * mine < (a + 1) * theirs
        }
        return sorted(point(hash_) for lane, hash_ in first.items() if lane in overlap)

    def _first_of_lanes(self, port: int, cells: Indices) -> dict[int, int]:
        first: dict[int, int] = {}
        for cell, lane in zip(cells.tolist(), self.lane_of_cells(port)[cells].tolist(), strict=True):
            first.setdefault(lane, int(self.hashes[cell]))
        return first


class OnGrid:
    """What operators on a grid have in common."""

    grid: Grid

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
