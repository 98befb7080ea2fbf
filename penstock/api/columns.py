"""Expressions in Python: `col("price") * 2 > 10`, `when(col("a") > 0, "up").otherwise("down")`.

An operand that is a string is a text constant, as in `col("kind") == "call"`; where a function asks for a column, as in
`sum("duration")`, a string is the name of one, or SQL text (`sum("price * amount")`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import NoReturn

import numpy as np

from penstock.errors import QueryError
from penstock.expr.functions import require_function
from penstock.expr.text import text
from penstock.expr.tree import Call, Case, Cast, Column, Expr, Literal
from penstock.type_names import arrow_type, sql_type

_CONSTANTS = (bool, int, float, str, bytes, Decimal, date, datetime, timedelta, type(None))


@dataclass(frozen=True, eq=False, repr=False)
class ColumnExpr:
    """An expression under construction; `tree` is what it stands for. `==` builds an expression, so it cannot be a key
    of a dict, and it has no truth value."""

    tree: Expr

    __hash__ = None  # type: ignore[assignment]
    __array_ufunc__ = None  # so that numpy's scalars leave `np.int64(1) + col("a")` to this class

    def __add__(self, other: object) -> ColumnExpr:
        return call("+", self, other)

    def __radd__(self, other: object) -> ColumnExpr:
        return call("+", other, self)

    def __sub__(self, other: object) -> ColumnExpr:
        return call("-", self, other)

    def __rsub__(self, other: object) -> ColumnExpr:
        return call("-", other, self)

    def __mul__(self, other: object) -> ColumnExpr:
        return call("*", self, other)

    def __rmul__(self, other: object) -> ColumnExpr:
        return call("*", other, self)

    def __truediv__(self, other: object) -> ColumnExpr:
        return call("/", self, other)

    def __rtruediv__(self, other: object) -> ColumnExpr:
        return call("/", other, self)

    def __floordiv__(self, other: object) -> ColumnExpr:
        """Division of integers, rounded towards zero (as in SQL, and not as in Python)."""
        return call("//", self, other)

    def __rfloordiv__(self, other: object) -> ColumnExpr:
        return call("//", other, self)

    def __mod__(self, other: object) -> ColumnExpr:
        """The remainder of `//`, with the sign of the dividend (as in SQL, and not as in Python)."""
        return call("%", self, other)

    def __rmod__(self, other: object) -> ColumnExpr:
        return call("%", other, self)

    def __neg__(self) -> ColumnExpr:
        return call("-", self)

    def __eq__(self, other: object) -> ColumnExpr:  # type: ignore[override]
        return call("=", self, other)

    def __ne__(self, other: object) -> ColumnExpr:  # type: ignore[override]
        return call("<>", self, other)

    def __lt__(self, other: object) -> ColumnExpr:
        return call("<", self, other)

    def __le__(self, other: object) -> ColumnExpr:
        return call("<=", self, other)

    def __gt__(self, other: object) -> ColumnExpr:
        return call(">", self, other)

    def __ge__(self, other: object) -> ColumnExpr:
        return call(">=", self, other)

    def __and__(self, other: object) -> ColumnExpr:
        return call("and", self, other)

    def __rand__(self, other: object) -> ColumnExpr:
        return call("and", other, self)

    def __or__(self, other: object) -> ColumnExpr:
        return call("or", self, other)

    def __ror__(self, other: object) -> ColumnExpr:
        return call("or", other, self)

    def __invert__(self) -> ColumnExpr:
        return call("not", self)

    def is_null(self) -> ColumnExpr:
        return call("is_null", self)

    def is_not_null(self) -> ColumnExpr:
        return call("is_not_null", self)

    def is_in(self, values: Iterable[object]) -> ColumnExpr:
        """Whether it equals one of the values; false where there are none."""
        if isinstance(values, str | bytes):
            raise QueryError(f"is_in takes several values, not {values!r}", hint=f"write is_in([{values!r}])")
        members = list(values)
        return call("in", self, *members) if members else lit(False)

    def like(self, pattern: object) -> ColumnExpr:
        """Whether it matches a pattern, where `%` stands for any text and `_` for any one character."""
        return call("like", self, pattern)

    def between(self, low: object, high: object) -> ColumnExpr:
        """Whether it is at least `low` and at most `high`."""
        return call("between", self, low, high)

    def field(self, name: str) -> ColumnExpr:
        """A field of a STRUCT; null where the struct is."""
        return call("struct_extract", self, name)

    def cast(self, type: str, *, lenient: bool = False) -> ColumnExpr:
        """As another SQL type; where a value does not fit, an error, or null if `lenient`."""
        return ColumnExpr(Cast(self.tree, sql_type(arrow_type(type)), lenient))

    def __bool__(self) -> NoReturn:
        raise QueryError(
            f"`{text(self.tree)}` has no truth value before the query runs",
            hint="use & and | and ~ instead of and, or, not, with parentheses around comparisons; use between() "
            "instead of a < b < c",
        )

    def __iter__(self) -> NoReturn:
        raise QueryError(
            f"`{text(self.tree)}` is one column and not a list of values",
            hint='name columns one by one, as in select("a", "b"); use is_in([...]) to compare with several values',
        )

    def __repr__(self) -> str:
        return text(self.tree)


@dataclass(frozen=True)
class When:
    """A CASE that has no ELSE yet."""

    branches: tuple[tuple[Expr, Expr], ...]

    def when(self, condition: object, value: object) -> When:
        if isinstance(condition, str):
            raise QueryError(
                "the condition of a CASE cannot be a string",
                detail=repr(condition)[:200],
                hint='write it as in when(col("qty") > 1, ...), or the whole CASE as SQL text in select(...)',
            )
        return When((*self.branches, (as_expr(condition), as_expr(value))))

    def otherwise(self, value: object) -> ColumnExpr:
        return ColumnExpr(Case(self.branches, as_expr(value)))


def col(name: str) -> ColumnExpr:
    """The column called `name`; any name is taken as it is, dots and all."""
    return ColumnExpr(Column(name))


def lit(value: object) -> ColumnExpr:
    """A constant."""
    return ColumnExpr(as_expr(value))


def call(function: str, *arguments: object) -> ColumnExpr:
    """A scalar function by its SQL name, as in `call("lower", col("name"))`."""
    name = require_function(function, len(arguments)).name
    return ColumnExpr(Call(name, tuple(as_expr(argument) for argument in arguments)))


def when(condition: object, value: object) -> When:
    """`CASE WHEN condition THEN value`, to be ended by `.otherwise(...)`."""
    return When(()).when(condition, value)


def as_expr(value: object) -> Expr:
    """The tree of an operand: an expression stays, any other value is a constant."""
    match value:
        case ColumnExpr(tree):
            return tree
        case Column() | Literal() | Call() | Cast() | Case():
            return value
        case When():
            raise QueryError("a CASE has no ELSE", hint="end it with .otherwise(...), or .otherwise(None)")
        case np.bool_() | np.integer() | np.floating() if not isinstance(value, np.timedelta64):
            return Literal(value.item())
    if isinstance(value, _CONSTANTS):
        return Literal(value)
    raise QueryError(
        f"a {type(value).__name__} cannot be part of an expression",
        detail=repr(value)[:200],
        hint="use a number, a string, bytes, a bool, a date, a datetime, a timedelta, a Decimal or None",
    )


def as_operand(value: object) -> Expr | str:
    """An argument that is a column or computed from some. A string is read once the stream is known whose it is."""
    return value if isinstance(value, str) else as_expr(value)
