"""The grid of a theta join: in which cells a row is needed.

A row of port 0 belongs to one row of the grid and is needed in all cells of it, a row of port 1 to one column. So each
pair of rows meets in exactly one cell. Every cell is a point of the hash space: its rows stand together in a run, in
order of time, and it is a partition group that can move by itself.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from penstock.errors import QueryError
from penstock.operators.aggregate_segments import Indices
from penstock.operators.arrange import arranged_schema
from penstock.operators.window import Times
from penstock.state.directory import HASH_END
from penstock.state.hash import Words, hash_columns

Grid = tuple[int, int]  # how many rows and columns of cells


def check_grid(grid: Grid) -> None:
    rows, columns = grid
    if rows < 1 or columns < 1:
        raise QueryError("the grid of a theta join has no cells", detail=f"it is {rows} x {columns}", hint="2 x 2")


def cell_hashes(grid: Grid) -> Words:
    """The hash of each cell; cells are numbered row by row."""
    cells = grid[0] * grid[1]
    return np.array([cell * (HASH_END // cells) for cell in range(cells)], dtype=np.uint64)


def lanes_of(rows: pa.Table, lanes: int, hash_bits: int) -> Indices:
    """The grid row or column of each row: by a hash of all its values, so that it is the same when it is read again."""
    hashes = hash_columns(rows.columns, hash_bits, length=rows.num_rows)
    return ((hashes >> np.uint64(32)) * np.uint64(lanes) >> np.uint64(32)).astype(np.int64)


def spread(rows: pa.Table, times: Times, lanes: Indices, port: int, grid: Grid) -> pa.Table:
    """A copy of each row for every cell that needs it, behind #hash and #time, sorted."""
    order = np.lexsort((times, lanes))
    bounds = np.searchsorted(lanes[order], np.arange(grid[port] + 1))
    cells = [order[bounds[lane] : bounds[lane + 1]] for lane in _lane_of_cells(port, grid)]
    chosen = np.concatenate(cells)
    hashes = np.repeat(cell_hashes(grid), [len(cell) for cell in cells])
    columns = rows.take(pa.array(chosen)).columns
    return pa.table([pa.array(hashes), pa.array(times[chosen]), *columns], schema=arranged_schema(rows.schema))


def _lane_of_cells(port: int, grid: Grid) -> Indices:
    """For each cell its row (port 0) or its column (port 1)."""
    cells = np.arange(grid[0] * grid[1])
    return cells // grid[1] if port == 0 else cells % grid[1]
