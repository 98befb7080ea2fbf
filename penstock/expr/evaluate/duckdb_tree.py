"""Translation of expression trees to DuckDB's expression objects, without SQL text.

Columns are named by position (`c0`, `c1`, ...), because DuckDB ignores the case of names and Penstock does not.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from functools import reduce
from typing import Any, TypeAlias

import duckdb
from duckdb import CaseExpression, CoalesceOperator, ColumnExpression, ConstantExpression, FunctionExpression

from penstock.errors import QueryError
from penstock.expr.functions import require_function
from penstock.expr.text import signed_integer
from penstock.expr.tree import Call, Case, Cast, Column, Expr, Literal, Scalar
from penstock.type_names import arrow_type, sql_type

_CONSTANT = "use a valid value of its type, or a column"

Duck: TypeAlias = Any  # a duckdb.Expression; the class is not a stable part of DuckDB's interface
Positions = Mapping[str, str]  # column name -> name in DuckDB


def build(expression: Expr, positions: Positions) -> Duck:
    """Return the DuckDB expression of a tree. All its columns must be in `positions`."""
    match expression:
        case Column(name):
            return ColumnExpression(positions[name])
        case Literal(value):
            return constant(value)
        case Call("-", (_,)) if (number := signed_integer(expression)) is not None:
            return constant(number)
        case Call(function, arguments):
            name = require_function(function, len(arguments)).name
            return _call(name, [build(argument, positions) for argument in arguments])
        case Cast(operand, type_, lenient):
            inner, canonical = build(operand, positions), sql_type(arrow_type(type_))
            return inner.try_cast(canonical) if lenient else inner.cast(canonical)
        case Case(branches, default):
            return _case([(build(c, positions), build(v, positions)) for c, v in branches], build(default, positions))


def constant(value: Scalar) -> Duck:
    """Return a DuckDB constant. An int becomes the narrowest of INTEGER, BIGINT and HUGEINT that holds it; a time
    becomes UTC."""
    match value:
        case bool():
            return ConstantExpression(value)
        case int() if not -(2**63) <= value < 2**63:
            return _huge(value)
        case datetime() if value.tzinfo is not None:
            return ConstantExpression(value.astimezone(UTC).replace(tzinfo=None))
        case Decimal():
            return _decimal(value)
        case str():
            _check_unicode(value)
    try:
        return ConstantExpression(value)
    except (TypeError, duckdb.Error) as error:
        raise QueryError(f"{value!r} cannot be used as a constant", detail=str(error), hint=_CONSTANT) from error


def _check_unicode(value: str) -> None:
    """Raise QueryError if the text has lone surrogates, which DuckDB cannot take."""
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise QueryError(
            f"{value!r} cannot be used as a constant", detail="it is not valid Unicode", hint=_CONSTANT
        ) from error


def _huge(value: int) -> Duck:
    """Return a HUGEINT constant. Raises QueryError if it needs more than 128 bits."""
    if not -(2**127) <= value < 2**127:
        raise QueryError(f"the number {value} is too large", hint="use a float")
    return ConstantExpression(value).cast("HUGEINT")


def _decimal(value: Decimal) -> Duck:
    """Return a DECIMAL constant with the digits and scale that SQL gives it. Raises QueryError above 38 digits."""
    if not value.is_finite():
        raise QueryError(f"the decimal {value} is not a number", hint="use a float for NaN and infinity")
    whole, _, fraction = f"{value:f}".lstrip("-").partition(".")
    if len(whole) + len(fraction) > 38:
        raise QueryError(f"the decimal {value} has more than 38 digits", hint="use a float")
    # DuckDB gives the Python value 0.10 two digits, but the SQL text 0.10 three.
    return ConstantExpression(value).cast(f"DECIMAL({len(whole) + len(fraction)}, {len(fraction)})")


def _case(branches: list[tuple[Duck, Duck]], default: Duck) -> Duck:
    """Return a CASE expression; the default alone if there are no branches."""
    if not branches:
        return default
    first, *others = branches
    built = CaseExpression(*first)
    for condition, value in others:
        built = built.when(condition, value)
    return built.otherwise(default)


def _call(name: str, arguments: list[Duck]) -> Duck:
    """Return the expression of a function or operator by its DuckDB name."""
    if name in _SYNTAX:
        return _SYNTAX[name](*arguments)
    return FunctionExpression(name, *arguments)


def _same(left: Duck, right: Duck) -> Duck:
    """Return IS NOT DISTINCT FROM, which DuckDB's expression objects lack."""
    return CoalesceOperator(left == right, left.isnull() & right.isnull())


def _like(plain: str, escaped: str) -> Callable[..., Duck]:
    """Return a builder of LIKE that also takes an escape character."""
    return lambda *arguments: FunctionExpression(plain if len(arguments) == 2 else escaped, *arguments)


# SQL syntax without a DuckDB function. Comparisons have one, but it crashes if the operands have different types.
_SYNTAX: dict[str, Callable[..., Duck]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "and": lambda *parts: reduce(operator.and_, parts),
    "or": lambda *parts: reduce(operator.or_, parts),
    "||": lambda *parts: reduce(lambda left, right: FunctionExpression("||", left, right), parts),
    "not": operator.invert,
    "is_null": lambda operand: operand.isnull(),
    "is_not_null": lambda operand: operand.isnotnull(),
    "is_not_distinct_from": _same,
    "is_distinct_from": lambda left, right: ~_same(left, right),
    "between": lambda operand, low, high: operand.between(low, high),
    "in": lambda operand, *members: operand.isin(*members),
    "like": _like("~~", "like_escape"),
    "ilike": _like("~~*", "ilike_escape"),
    "coalesce": CoalesceOperator,
}
