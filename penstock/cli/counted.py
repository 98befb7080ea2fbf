"""Format a count with its noun."""

from __future__ import annotations


def counted(count: int, noun: str) -> str:
    """Return the count and the noun, in the plural unless the count is 1: "1 row", "2,000 rows"."""
    return f"{count:,} {noun}" + ("" if count == 1 else "s")
