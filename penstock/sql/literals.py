"""Constants: numbers as DuckDB reads them, dates, times and intervals."""

from __future__ import annotations

import math
import re
from datetime import date, datetime
from decimal import Decimal

import pyarrow as pa
from sqlglot import exp

from penstock.errors import QueryError
from penstock.expr.tree import Cast, Expr, Literal
from penstock.sql.interval import interval
from penstock.sql.tree import without_parentheses
from penstock.sql.type_name import type_named
from penstock.types import sql_type

_DECIMAL_DIGITS = 38
_PLAIN_DECIMAL = re.compile(r"\d*\.\d*")
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:\.(?:\d{3}|\d{6}))?")


def number(written: str) -> Literal:
    """`5` is an integer, `0.5` an exact decimal, `5e-1` a double."""
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


def interval_literal(node: exp.Interval) -> Literal:
    """The span of an INTERVAL whose amount is a constant."""
    amount, unit = without_parentheses(node.this), node.args.get("unit")
    if not isinstance(amount, exp.Literal) or isinstance(unit, exp.IntervalSpan):
        raise QueryError(
            "the amount of an INTERVAL is a constant",
            hint="multiply it, as in n * INTERVAL '1' SECOND, or use to_seconds",
        )
    return Literal(interval(amount.name, unit.name if unit is not None else ""))


def cast(operand: Expr, type_name: str, lenient: bool) -> Expr:
    """A cast to a type under its first name; a date or time written out becomes the value it is."""
    type_ = type_named(type_name)
    match operand:
        case Literal(str() as written) if not lenient:
            value = _date_or_time(written.strip(), type_)
            return Literal(value) if value is not None else Cast(operand, sql_type(type_))
    return Cast(operand, sql_type(type_), lenient)


def _date_or_time(written: str, type_: pa.DataType) -> date | datetime | None:
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
