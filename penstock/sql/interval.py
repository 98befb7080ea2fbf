"""Spans of time as text: `'2' SECOND`, `'1 day 6 hours'`, `90 MINUTES`."""

from __future__ import annotations

import re
from datetime import timedelta
from fractions import Fraction

from penstock.errors import QueryError, did_you_mean

_SECOND = 1_000_000
_UNITS = {
    "MICROSECOND": 1, "MILLISECOND": 1_000, "SECOND": _SECOND, "MINUTE": 60 * _SECOND, "HOUR": 3_600 * _SECOND,
    "DAY": 86_400 * _SECOND, "WEEK": 7 * 86_400 * _SECOND,
}  # fmt: skip
_SHORT = {
    "US": "MICROSECOND", "USEC": "MICROSECOND", "MS": "MILLISECOND", "MSEC": "MILLISECOND", "S": "SECOND",
    "SEC": "SECOND", "M": "MINUTE", "MIN": "MINUTE", "H": "HOUR", "HR": "HOUR", "D": "DAY", "W": "WEEK",
}  # fmt: skip
_CALENDAR = {"MONTH", "MON", "QUARTER", "YEAR", "YR", "Y", "DECADE", "CENTURY", "CENTURIE", "MILLENNIUM", "MILLENNIA"}
_PART = re.compile(r"\s*([+-]?\d{1,18}(?:\.\d{0,9})?)\s*([A-Za-z]+)\s*,?")


def interval(amount: str, unit: str = "") -> timedelta:
    """The span `amount` of `unit`; without a unit the amount names its own, as in `1 day 6 hours`."""
    written = f"{amount} {unit}".strip()
    total, at = Fraction(0), 0
    while at < len(written) or not written:
        if (part := _PART.match(written, at)) is None:
            raise _unreadable(written)
        total += Fraction(part[1]) * _microseconds(part[2])
        at = part.end()
    return _span(total, written)


def microseconds(span: timedelta) -> int:
    return span // timedelta(microseconds=1)


def is_unit(word: str) -> bool:
    """Whether the word is a unit of time, of fixed length or of the calendar."""
    singular = _singular(word.upper())
    return singular in _UNITS or singular in _CALENDAR


def _singular(unit: str) -> str:
    unit = unit if unit in _SHORT else unit.removesuffix("S")
    return _SHORT.get(unit, unit)


def _microseconds(unit: str) -> int:
    singular = _singular(unit.upper())
    if singular in _UNITS:
        return _UNITS[singular]
    if singular in _CALENDAR:
        raise QueryError(
            f"an interval in units of {singular} cannot be used",
            detail="months and years have no fixed length, so a window or a slack of that size has none either",
            hint="use days, as in INTERVAL '30' DAY",
        )
    raise QueryError(f"unknown unit of time `{unit}`", hint=did_you_mean(singular, _UNITS))


def _span(total: Fraction, written: str) -> timedelta:
    if total.denominator != 1:
        raise QueryError(f"the interval `{written}` is finer than a microsecond", hint="use whole microseconds")
    try:
        return timedelta(microseconds=total.numerator)
    except OverflowError as error:
        raise QueryError(
            f"the interval `{written}` is too long", hint="use one of less than 2,700,000 years"
        ) from error


def _unreadable(written: str) -> QueryError:
    return QueryError(
        f"the interval `{written}` cannot be read",
        hint="write a number and a unit, as in INTERVAL '10' SECOND or INTERVAL '1 day 6 hours'",
    )
