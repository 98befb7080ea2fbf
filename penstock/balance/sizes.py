"""Sizes of state, as the reasons of decisions say them."""

from __future__ import annotations

from penstock.units import scaled


def full_reason(site: int, held: float, memory: int) -> str:
    """Return how much state a site holds and, if that is too much, how much it may hold (0: no limit)."""
    bound = f" and may hold {written(memory)}" if 0 < memory < held else ""
    return f"site {site} holds {written(held)} of state{bound}"


def written(size: float) -> str:
    """Format a number of bytes with three digits and a unit."""
    number, unit = scaled(size)
    return f"{number:.3g} {'bytes' if unit == 'B' else unit}"
