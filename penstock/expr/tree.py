"""Scalar expressions as immutable trees.

The front ends (SQL, Python) build them, the plan carries them, and `expr.evaluate` evaluates them over Arrow tables. A
tree never becomes program text: each node becomes an expression object of the evaluator. Functions and operators have
their DuckDB names (`+`, `//`, `=`, `<>`, `and`, `or`, `not`, `is_null`, `like`, `in`, `lower`, ...).
"""

from __future__ import annotations

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
