"""The rows of one cell, out of tables that hold those of many."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa

from penstock.operators.arrange import hashes_of, merged, times_of
from penstock.operators.protocol import Stored

_TOGETHER = 1 << 16  # rows; smaller tables are brought together up to this size


def by_cell(table: pa.Table) -> dict[int, pa.Table]:
    """The rows of each cell of a sorted table."""
    hashes = hashes_of(table)
    cells, starts = np.unique(hashes, return_index=True)
    ends = np.append(starts[1:], len(hashes))
    return {int(c): table.slice(s, e - s) for c, s, e in zip(cells, starts, ends, strict=False)}


def cell_rows_between(stored: Iterable[Stored], cell: int, first: int, last: int) -> list[pa.Table]:
    """The stored rows of a cell with a time from `first` to `last`, each table in order of time."""
    near = (piece.rows for piece in stored if piece.least <= last and piece.largest >= first)
    return [rows for table in near if (rows := _between(table, cell, first, last)).num_rows]


def _between(table: pa.Table, cell: int, first: int, last: int) -> pa.Table:
    hashes = hashes_of(table)
    start, end = (int(np.searchsorted(hashes, np.uint64(cell), side)) for side in ("left", "right"))
    times = times_of(table)[start:end]
    skipped = int(np.searchsorted(times, first, "left"))
    return table.slice(start + skipped, int(np.searchsorted(times, last, "right")) - skipped)


def together(tables: list[pa.Table], schema: pa.Schema) -> Iterator[pa.Table]:
    """The same rows of one cell in fewer tables, neighbours in time together, each in order of time."""
    waiting: list[pa.Table] = []
    for table in sorted(tables, key=lambda table: int(times_of(table)[0])):
        if waiting and sum(t.num_rows for t in waiting) + table.num_rows > _TOGETHER:
            yield merged(waiting, schema)
            waiting = []
        waiting.append(table)
    if waiting:
        yield merged(waiting, schema)
