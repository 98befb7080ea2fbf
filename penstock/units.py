"""Units of time and of memory: text such as "2s" or "1.5 h" to microseconds, and back; "2GB" to bytes, and back."""

from __future__ import annotations

import re
from datetime import timedelta

from penstock.errors import ConfigError

SECOND = 1_000_000
MEGABYTE = 1 << 20
UNITS = {
    "MICROSECOND": 1, "MILLISECOND": 1_000, "SECOND": SECOND, "MINUTE": 60 * SECOND, "HOUR": 3_600 * SECOND,
    "DAY": 86_400 * SECOND, "WEEK": 7 * 86_400 * SECOND,
}  # fmt: skip
_SHORT = {
    "US": "MICROSECOND", "USEC": "MICROSECOND", "MS": "MILLISECOND", "MSEC": "MILLISECOND", "S": "SECOND",
    "SEC": "SECOND", "M": "MINUTE", "MIN": "MINUTE", "H": "HOUR", "HR": "HOUR", "D": "DAY", "W": "WEEK",
}  # fmt: skip
_SHOWN = (("d", "DAY"), ("h", "HOUR"), ("m", "MINUTE"), ("s", "SECOND"), ("ms", "MILLISECOND"), ("us", "MICROSECOND"))
_SPAN = re.compile(r"\s*([+-]?\d+(?:\.\d+)?)\s*([a-z]+)\s*")


def full_name(unit: str) -> str:
    """Return the name of a unit of time in UNITS, such as SECOND for `s` or `Seconds`; an unknown word in upper case
    and without a plural s."""
    upper = unit.upper()
    singular = upper if upper in _SHORT else upper.removesuffix("S")
    return _SHORT.get(singular, singular)


def microseconds(span: timedelta) -> int:
    """Return the length of the interval in whole microseconds."""
    return span // timedelta(microseconds=1)


def span(text: str | int | timedelta) -> int:
    """Return a span of time in microseconds: "2s", "1m", "500ms", "1.5 h"; an integer is returned unchanged. Raises
    ConfigError for other text."""
    if isinstance(text, timedelta):
        return microseconds(text)
    if isinstance(text, int) and not isinstance(text, bool):
        return text
    match = _SPAN.fullmatch(str(text).lower())
    factor = UNITS.get(full_name(match[2])) if match else None
    if match is None or factor is None:
        raise ConfigError(
            f"`{text}` is not a span of time",
            detail="a span is a number and a unit",
            hint='write it as "500ms", "2s", "1m", "6h" or "1d"',
        )
    return round(float(match[1]) * factor) if "." in match[1] else int(match[1]) * factor


def span_text(value: int, is_timestamp: bool) -> str:
    """Return a span with the largest unit of which it is a multiple, such as `90s` or `2h`; for BIGINT times the number
    itself."""
    if not is_timestamp or value == 0:
        return str(value)
    short, unit = next((short, UNITS[name]) for short, name in _SHOWN if value % UNITS[name] == 0)
    return f"{value // unit}{short}"


_SIZE_UNITS = ("B", "kB", "MB", "GB", "TB")
_SIZES: dict[str, int] = {"": 1, "B": 1}
_SIZES |= {unit + end: base**n for n, unit in enumerate("KMGT", 1) for end, base in (("B", 1000), ("IB", 1024))}
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*")


def size(text: str | int) -> int:
    """Return a number of bytes: "2GB", "512MiB", "1.5 TB"; a number without a unit counts bytes. Raises ConfigError for
    other text."""
    if isinstance(text, int):
        return text
    match = _SIZE.fullmatch(text.lower().replace("_", ""))
    factor = _SIZES.get(match[2].upper()) if match else None
    if match is None or factor is None:
        raise ConfigError(
            f"`{text}` is not a size",
            detail="a size is a number of bytes, or a number and a unit",
            hint='write it as "500MB", "2GB" or "1GiB"',
        )
    return round(float(match[1]) * factor) if "." in match[1] else int(match[1]) * factor


def size_text(count: float) -> str:
    """Return a number of bytes with at most three digits and a unit."""
    number, unit = scaled(count)
    return f"{number:,.1f} {unit}" if number < 9.95 and unit != _SIZE_UNITS[0] else f"{number:,.0f} {unit}"


def scaled(count: float) -> tuple[float, str]:
    """Return a number of bytes in the largest unit of which it has at least one, after rounding, and that unit."""
    power = 0
    while count >= 999.5 and power < len(_SIZE_UNITS) - 1:
        count, power = count / 1000, power + 1
    return count, _SIZE_UNITS[power]
