"""Results on their way out: neither so many at once that they fill the memory, nor in very small tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

_ROWS = 1 << 17  # small results are put together up to this


def in_blocks(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """The same rows in fewer tables."""
    waiting: list[pa.Table] = []
    for table in tables:
        if table.num_rows:
            waiting.append(table)
        if sum(t.num_rows for t in waiting) >= _ROWS:
            yield pa.concat_tables(waiting)
            waiting = []
    if waiting:
        yield pa.concat_tables(waiting)
