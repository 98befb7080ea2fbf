"""Columns worked on block by block, so that they stay in the cache from one step to the next."""

from __future__ import annotations

from collections.abc import Iterator

_BLOCK = 1 << 15  # rows


def blocks(rows: int) -> Iterator[slice]:
    """All rows, as ranges of about that size."""
    return (slice(start, start + _BLOCK) for start in range(0, rows, _BLOCK))
