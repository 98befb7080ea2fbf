"""Scalar expressions as immutable trees.

The front ends (SQL, Python) build them, the plan carries them, and `expr.evaluate` evaluates them over Arrow tables. A
tree never becomes program text: each node becomes an expression object of the evaluator. Functions and operators have
their DuckDB names (`+`, `//`, `=`, `<>`, `and`, `or`, `not`, `is_null`, `like`, `in`, `lower`, ...).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal

Scalar = None | bool | int | float | str | bytes | Decimal | date | datetime | timedelta


@dataclass(frozen=True)
class Column:
    """A column of the input, by name."""

    name: str


@dataclass(frozen=True)
class Literal:
    """A constant. A timedelta is an interval."""

    value: Scalar


@dataclass(frozen=True)
class Call:
    """A function or operator applied to arguments. `function` is one of `expr.functions.FUNCTIONS`."""

    function: str
    arguments: tuple[Expr, ...]


@dataclass(frozen=True)
class Cast:
    """`CAST(operand AS type)`, or `TRY_CAST` if `lenient`. `type` is a SQL type name."""

    operand: Expr
    type: str
    lenient: bool = False


@dataclass(frozen=True)
class Case:
    """`CASE WHEN c THEN v ... ELSE default END`."""

    branches: tuple[tuple[Expr, Expr], ...]
    default: Expr


Expr = Column | Literal | Call | Cast | Case


@dataclass(frozen=True)
class Named:
    """An expression and the name of its result column."""

    name: str
    expression: Expr


def columns_of(expression: Expr) -> Iterator[str]:
    """Yield the names of the columns an expression reads, in order of appearance, with repetitions."""
    match expression:
        case Column(name):
            yield name
        case Literal():
            return
        case Call(_, arguments):
            for argument in arguments:
                yield from columns_of(argument)
        case Cast(operand):
            yield from columns_of(operand)
        case Case(branches, default):
            for condition, value in branches:
                yield from columns_of(condition)
                yield from columns_of(value)
            yield from columns_of(default)


def substitute(expression: Expr, bindings: dict[str, Expr]) -> Expr:
    """Return the expression with each column named in `bindings` replaced by its binding."""
    match expression:
        case Column(name):
            return bindings.get(name, expression)
        case Literal():
            return expression
        case Call(function, arguments):
            return Call(function, tuple(substitute(a, bindings) for a in arguments))
        case Cast(operand, type_, lenient):
            return Cast(substitute(operand, bindings), type_, lenient)
        case Case(branches, default):
            swapped = tuple((substitute(c, bindings), substitute(v, bindings)) for c, v in branches)
            return Case(swapped, substitute(default, bindings))
