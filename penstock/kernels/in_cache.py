"""Block-wise work on columns, so that a block stays in the CPU cache from one step to the next."""

from __future__ import annotations

from collections.abc import Iterator

_BLOCK = 1 << 15  # rows


def blocks(rows: int) -> Iterator[slice]:
    """Yield slices of `_BLOCK` rows that cover all rows. The last slice may extend past the end."""
    return (slice(start, start + _BLOCK) for start in range(0, rows, _BLOCK))
