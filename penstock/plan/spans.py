"""Spans of time as people read them."""

from __future__ import annotations

_UNITS = (("d", 86_400_000_000), ("h", 3_600_000_000), ("m", 60_000_000), ("s", 1_000_000), ("ms", 1_000), ("us", 1))


def span_text(value: int, is_timestamp: bool) -> str:
    """A span of time with the largest unit that it is a whole number of."""
    if not is_timestamp or value == 0:
        return str(value)
    sign, size = ("-", -value) if value < 0 else ("", value)
    for unit, factor in _UNITS:
        if size % factor == 0:
            return f"{sign}{size // factor}{unit}"
    return f"{value}us"
