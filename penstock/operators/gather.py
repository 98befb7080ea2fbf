"""Coalescing of small tables, with bounded memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sized
from typing import TypeVar

import pyarrow as pa

_ROWS = 1 << 17  # tables of results are concatenated up to this many rows
Rows = TypeVar("Rows", bound=Sized)


def gathered(parts: Iterable[Rows], most: int) -> Iterator[list[Rows]]:
    """Yield consecutive parts together, with up to `most` rows. A part with more rows comes alone; empty ones are
    left out."""
    waiting: list[Rows] = []
    rows = 0
    for part in filter(len, parts):
        if waiting and rows + len(part) > most:
            yield waiting
            waiting, rows = [], 0
        waiting.append(part)
        rows += len(part)
    if waiting:
        yield waiting


def in_blocks(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Yield the same rows in fewer tables."""
    return map(pa.concat_tables, gathered(tables, _ROWS))
