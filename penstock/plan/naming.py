"""Default names of result columns. Both front ends use them, so that equal queries give equal plans."""

from __future__ import annotations

from penstock.expr.text import text
from penstock.expr.tree import Call, Column, Expr, Literal


def default_name(expression: Expr) -> str:
    """Return the name of an expression without an alias: that of its column or field, otherwise its text."""
    return _own_name(expression) or text(expression)


def aggregate_name(function: str, argument: Expr | None) -> str:
    """Return the name of an aggregate without an alias, such as `count` or `sum_duration`; the function alone if the
    argument is not a column."""
    name = None if argument is None else _own_name(argument)
    return function if name is None else f"{function}_{name}"


def _own_name(expression: Expr) -> str | None:
    """Return the name of the column or the field that an expression is; None for other expressions."""
    match expression:
        case Column(name) | Call("struct_extract", (_, Literal(str() as name))):
            return name
    return None
