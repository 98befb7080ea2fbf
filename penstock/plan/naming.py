"""The names results get when the user gives none. Both front ends use them, so that equal queries give equal plans."""

from __future__ import annotations

from collections.abc import Collection
from itertools import count

from penstock.expr.text import text
from penstock.expr.tree import Call, Column, Expr, Literal


def default_name(expression: Expr) -> str:
    """The name of an expression without an alias: that of the column or the field it is, or its text."""
    return _own_name(expression) or text(expression)


def aggregate_name(function: str, argument: Expr | None) -> str:
    """The name of an aggregate without an alias: `count`, `sum_duration`; only the function where it has no column."""
    name = None if argument is None else _own_name(argument)
    return function if name is None else f"{function}_{name}"


def _own_name(expression: Expr) -> str | None:
    match expression:
        case Column(name) | Call("struct_extract", (_, Literal(str() as name))):
            return name
    return None


def unique_name(name: str, taken: Collection[str]) -> str:
    """The name itself, or with the first number behind it that makes it new."""
    if name not in taken:
        return name
    return next(numbered for i in count(2) if (numbered := f"{name}_{i}") not in taken)
