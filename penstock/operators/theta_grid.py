"""The grid of a theta join: in which cells a row is needed.

A row of port 0 belongs to one row of the grid and is needed in all cells of it, a row of port 1 to one column. So each
pair of rows meets in exactly one cell. Every cell is a point of the hash space: its rows stand together in a run, in
order of time, and it is a partition group that can move by itself.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from penstock.errors import QueryError
from penstock.operators.aggregate_segments import Indices
from penstock.operators.arrange import arranged_schema, hashes_of
from penstock.operators.window import Times
from penstock.schema import is_nested
from penstock.state.hash import Words, hash_columns
from penstock.state.ranges import HASH_END, HashRange

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
    """The grid row or column of each row: by a hash of all its flat values, so that it is the same when read again."""
    flat = [column for column in rows.columns if not is_nested(column.type)]
    hashes = hash_columns(flat, hash_bits, length=rows.num_rows)
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


def sent_cells(port: int, grid: Grid, homes: Sequence[HashRange]) -> list[HashRange]:
    """The first of the cells of each row (port 0) or column (port 1) that lie in some ranges, each as a range."""
    hashes = [int(hash_) for hash_ in cell_hashes(grid)]
    first: dict[int, int] = {}
    for hash_, lane in zip(hashes, _lane_of_cells(port, grid).tolist(), strict=True):
        if any(home.low <= hash_ < home.high for home in homes):
            first.setdefault(lane, hash_)
    return [HashRange(hash_, hash_ + 1) for hash_ in sorted(first.values())]


def copied(rows: pa.Table, port: int, grid: Grid, homes: Sequence[HashRange]) -> pa.Table:
    """The rows of the cells that were sent, copied to all cells that lie in the same ranges; sorted."""
    hashes, of_cells = hashes_of(rows), cell_hashes(grid)
    sent = {lane: part for part in sent_cells(port, grid, homes) for lane in _lanes_at(part, port, grid)}
    places: list[Indices] = []
    for hash_, lane in zip(of_cells.tolist(), _lane_of_cells(port, grid).tolist(), strict=True):
        at_home = any(home.low <= hash_ < home.high for home in homes)
        found = sent[lane].rows(hashes) if at_home else slice(0, 0)
        places.append(np.arange(found.start, found.stop))
    copies = rows.take(pa.array(np.concatenate(places)))
    new = np.repeat(of_cells, [len(place) for place in places])
    return copies.set_column(0, copies.schema.field(0), pa.array(new))


def _lanes_at(part: HashRange, port: int, grid: Grid) -> list[int]:
    return [int(lane) for lane in _lane_of_cells(port, grid)[cell_hashes(grid) == np.uint64(part.low)]]


def _lane_of_cells(port: int, grid: Grid) -> Indices:
    """For each cell its row (port 0) or its column (port 1)."""
    cells = np.arange(grid[0] * grid[1])
    return cells // grid[1] if port == 0 else cells % grid[1]
