"""Expressions as columns of Spark, node by node: no text is made of them, and none of Penstock's kernels is used."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from operator import add, and_, eq, ge, gt, le, lt, mod, mul, ne, or_, sub, truediv
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F

from penstock.expr import tree as E
from penstock.expr.functions import ALIASES

# Where both have a type of this name, it need not mean the same, and VARCHAR is none of Spark's in a cast.
_TYPES = {"VARCHAR": "string", "TIMESTAMP": "timestamp_ntz", "BIGINT": "bigint", "INTEGER": "int", "DOUBLE": "double"}


class NotInSpark(Exception):
    """Spark SQL has no way to say this."""


def named(name: str) -> Column:
    """A column by its exact name, dots and all."""
    return F.col("`" + name.replace("`", "``") + "`")


def column(expression: E.Expr) -> Column:
    match expression:
        case E.Column(name):
            return named(name)
        case E.Literal(value):
            return F.lit(value)
        case E.Cast(operand, type_, lenient=False) if type_ in _TYPES:
            return column(operand).cast(_TYPES[type_])
        case E.Case(branches, default):
            return _case(branches, default)
        case E.Call(function, arguments):
            return _call(ALIASES.get(function, function), arguments)
    raise NotInSpark(str(expression))


def _case(branches: tuple[tuple[E.Expr, E.Expr], ...], default: E.Expr) -> Column:
    chosen = column(default)
    for condition, value in reversed(branches):
        chosen = F.when(column(condition), column(value)).otherwise(chosen)
    return chosen


def _call(function: str, arguments: tuple[E.Expr, ...]) -> Column:
    if function not in _CALLS:
        raise NotInSpark(f"the function {function}")
    return _CALLS[function](*map(column, arguments))


def _all(operator: Callable[[Any, Any], Any]) -> Callable[..., Column]:
    return lambda *operands: reduce(operator, operands)


def _quotient(left: Column, right: Column) -> Column:
    """Of integers, rounded towards zero: Spark has it as an operator of SQL only."""
    return F.call_function("div", left, right)


_CALLS: dict[str, Callable[..., Column]] = {
    "+": add, "*": mul, "/": truediv, "%": mod, "//": _quotient,
    "-": lambda left, *right: sub(left, *right) if right else -left,
    "=": eq, "<>": ne, "<": lt, "<=": le, ">": gt, ">=": ge,
    "and": _all(and_), "or": _all(or_), "not": lambda operand: ~operand,
    "is_null": lambda operand: operand.isNull(), "is_not_null": lambda operand: operand.isNotNull(),
    "is_distinct_from": lambda left, right: ~left.eqNullSafe(right),
    "is_not_distinct_from": lambda left, right: left.eqNullSafe(right),
    "like": F.like, "between": lambda operand, low, high: operand.between(low, high),
    "in": lambda operand, *members: operand.isin(*members),
    "coalesce": F.coalesce, "abs": F.abs, "lower": F.lower, "upper": F.upper, "length": F.length,
}  # fmt: skip
