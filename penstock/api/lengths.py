"""Lengths of time as users write them: text with a unit, a timedelta, or a number in the unit of a BIGINT time."""

from __future__ import annotations

from datetime import timedelta

import pyarrow as pa

from penstock.errors import ConfigError, QueryError
from penstock.units import span

Length = str | int | timedelta


def as_length(written: object, what: str) -> Length:
    """Return `written` unchanged after checking that it is a length of time; `what` names it in messages."""
    match written:
        case bool():
            pass
        case str():
            span(written)
            return written
        case int() | timedelta():
            return written
    raise QueryError(
        f"{what} cannot be {written!r}",
        hint='write a length of time as in "500ms", "2s", "1m", "6h" or "1d", or as a timedelta',
    )


def length_over(written: Length, time: pa.DataType, what: str) -> int:
    """Return the length in the unit of a time column of type `time`. Over a TIMESTAMP a number without a unit is
    refused, except 0."""
    if isinstance(written, int) and written and pa.types.is_timestamp(time):
        raise QueryError(**_without_unit(f"{what} over a TIMESTAMP", written))
    return span(written)


def real_length(written: object, what: str) -> int:
    """Return a length of wall-clock time in microseconds; a number without a unit is refused."""
    length = as_length(written, what)
    if isinstance(length, int):
        raise ConfigError(**_without_unit(what, length))
    return span(length)


def _without_unit(what: str, number: int) -> dict[str, str]:
    return {
        "what": f"{what} has no unit",
        "detail": f"{number} could be seconds or milliseconds; only a BIGINT time is counted in numbers",
        "hint": f'write "{number}s" for seconds, "{number}ms" for milliseconds, "{number}us" for microseconds',
    }
