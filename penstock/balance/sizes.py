"""Sizes of state, as the reasons of decisions say them."""

from __future__ import annotations

UNITS = ("bytes", "kB", "MB", "GB", "TB")


def full_reason(site: int, held: float, memory: int) -> str:
    """Return how much state a site holds and, if that is too much, how much it may hold (0: no limit)."""
    bound = f" and may hold {written(memory)}" if 0 < memory < held else ""
    return f"site {site} holds {written(held)} of state{bound}"


def written(size: float) -> str:
    """Format a number of bytes with three digits and a unit."""
    power = 0
    while size >= 999.5 and power < len(UNITS) - 1:
        size, power = size / 1000, power + 1
    return f"{size:.3g} {UNITS[power]}"
