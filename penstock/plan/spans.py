"""Text form of spans of time."""

from __future__ import annotations

_UNITS = (("d", 86_400_000_000), ("h", 3_600_000_000), ("m", 60_000_000), ("s", 1_000_000), ("ms", 1_000), ("us", 1))


def span_text(value: int, is_timestamp: bool) -> str:
    """Return a span with the largest unit of which it is a multiple, such as `90s` or `2h`; for BIGINT times the number
    itself."""
    if not is_timestamp or value == 0:
        return str(value)
    sign, size = ("-", -value) if value < 0 else ("", value)
    for unit, factor in _UNITS:
        if size % factor == 0:
            return f"{sign}{size // factor}{unit}"
    return f"{value}us"
