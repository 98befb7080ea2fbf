"""Coalescing of small result tables, with bounded memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

_ROWS = 1 << 17  # tables are concatenated until they have this many rows


def in_blocks(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Yield the same rows in fewer tables."""
    waiting: list[pa.Table] = []
    for table in tables:
        if table.num_rows:
            waiting.append(table)
        if sum(t.num_rows for t in waiting) >= _ROWS:
            yield pa.concat_tables(waiting)
            waiting = []
    if waiting:
        yield pa.concat_tables(waiting)
