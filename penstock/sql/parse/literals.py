"""Parse constants: numbers as DuckDB reads them, dates, timestamps, intervals such as `'1 day 6 hours'`, and type
names."""

from __future__ import annotations

import math
import re
from datetime import date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction

import pyarrow as pa
from sqlglot import exp

from penstock.errors import QueryError, did_you_mean
from penstock.expr.tree import Cast, Expr, Literal
from penstock.sql.parse.tree import without_parentheses
from penstock.type_names import arrow_type, sql_type
from penstock.units import UNITS, full_name

_DECIMAL_DIGITS = 38
_PLAIN_DECIMAL = re.compile(r"\d*\.\d*")
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:\.(?:\d{3}|\d{6}))?")
_CALENDAR = {"MONTH", "MON", "QUARTER", "YEAR", "YR", "Y", "DECADE", "CENTURY", "CENTURIE", "MILLENNIUM", "MILLENNIA"}
_PART = re.compile(r"\s*([+-]?\d{1,18}(?:\.\d{0,9})?)\s*([A-Za-z]+)\s*,?")


def number(written: str) -> Literal:
    """Parse a number: `5` is an integer, `0.5` an exact decimal, `5e-1` a double."""
    if written.isdigit():
        return Literal(_integer(written))
    if _PLAIN_DECIMAL.fullmatch(written) and len(written) <= _DECIMAL_DIGITS:
        return Literal(Decimal(written))
    return Literal(_double(written))


def _double(written: str) -> float:
    try:
        value = float(written)
    except ValueError as error:
        raise QueryError(f"`{written}` is not a number", hint="write it as in 5, 0.5 or 5e-1") from error
    if math.isinf(value):
        raise QueryError(f"the number {written[:30]} is too large for a double", hint="the largest is about 1.8e308")
    return value


def _integer(digits: str) -> int:
    if len(digits) > 19 or int(digits) > 2**63:
        raise QueryError(f"the number {digits[:30]} does not fit in 64 bits", hint="write a double, as in 1e20")
    return int(digits)


def interval_of(node: exp.Interval) -> timedelta:
    """Return the length of an interval; its amount must be a constant."""
    amount, unit = without_parentheses(node.this), node.args.get("unit")
    if not isinstance(amount, exp.Literal) or isinstance(unit, exp.IntervalSpan):
        raise QueryError(
            "the amount of an INTERVAL is a constant",
            hint="multiply it, as in n * INTERVAL '1' SECOND, or use to_seconds",
        )
    return interval(amount.name, unit.name if unit is not None else "")


def cast(operand: Expr, type_name: str, lenient: bool) -> Expr:
    """Return a cast to the type, named by its canonical name; a date or timestamp in text becomes a constant."""
    type_ = type_named(type_name)
    match operand:
        case Literal(str() as written) if not lenient:
            value = _date_or_time(written.strip(), type_)
            return Literal(value) if value is not None else Cast(operand, sql_type(type_))
    return Cast(operand, sql_type(type_), lenient)


def _date_or_time(written: str, type_: pa.DataType) -> date | datetime | None:
    """Return the date or timestamp that the text spells, or None if it spells neither."""
    try:
        if pa.types.is_date(type_) and _DATE.fullmatch(written):
            return date.fromisoformat(written)
        if pa.types.is_timestamp(type_) and (_TIMESTAMP.fullmatch(written) or _DATE.fullmatch(written)):
            return datetime.fromisoformat(written)
    except ValueError as error:
        raise QueryError(
            f"`{written}` is not a date", detail=str(error), hint="write it as in DATE '2024-01-31'"
        ) from error
    return None


def interval(amount: str, unit: str = "") -> timedelta:
    """Return the length of an interval: `amount` in `unit`; without a unit the amount has units, as in `1 day 6
    hours`."""
    written = f"{amount} {unit}".strip()
    total, at = Fraction(0), 0
    while at < len(written) or not written:
        if (part := _PART.match(written, at)) is None:
            raise _unreadable(written)
        total += Fraction(part[1]) * _microseconds(part[2])
        at = part.end()
    return _span(total, written)


def is_unit(word: str) -> bool:
    """Return whether the word is a unit of time, of fixed length or of the calendar."""
    singular = full_name(word)
    return singular in UNITS or singular in _CALENDAR


def _microseconds(unit: str) -> int:
    """Return the length of a unit in microseconds; units of the calendar have none and are refused."""
    singular = full_name(unit)
    if singular in UNITS:
        return UNITS[singular]
    if singular in _CALENDAR:
        raise QueryError(
            f"an interval in units of {singular} cannot be used",
            detail="months and years have no fixed length, so a window or a slack of that size has none either",
            hint="use days, as in INTERVAL '30' DAY",
        )
    raise QueryError(f"unknown unit of time `{unit}`", hint=did_you_mean(singular, UNITS))


def _span(total: Fraction, written: str) -> timedelta:
    """Return microseconds as a timedelta; `written` is the interval in the text, for errors."""
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


def type_named(written: str) -> pa.DataType:
    """Return the Arrow type of an SQL type name."""
    try:
        return arrow_type(written)
    except ValueError as error:  # a DECIMAL with an invalid precision or scale
        raise QueryError(
            f"the type {written} is impossible",
            detail=str(error),
            hint="choose one that holds the values, as in DECIMAL(18, 3)",
        ) from error
