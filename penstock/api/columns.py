"""Expressions in Python: `col("price") * 2 > 10`, `when(col("a") > 0, "up").otherwise("down")`.

A string operand is a text constant, as in `col("kind") == "call"`. Where a function expects a column, as in
`sum("duration")`, a string is a column name or SQL text (`sum("price * amount")`).
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
    """An expression under construction; `tree` is its syntax tree. `==` builds an expression, so a ColumnExpr is not
    hashable and has no truth value."""

    tree: Expr

    __hash__ = None  # type: ignore[assignment]
    __array_ufunc__ = None  # makes numpy scalars defer to this class in `np.int64(1) + col("a")`

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
        """Divide integers, rounding towards zero (as in SQL; Python rounds down)."""
        return call("//", self, other)

    def __rfloordiv__(self, other: object) -> ColumnExpr:
        return call("//", other, self)

    def __mod__(self, other: object) -> ColumnExpr:
        """Return the remainder of `//`, with the sign of the dividend (as in SQL; Python takes that of the divisor)."""
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
        """Test whether the value is null."""
        return call("is_null", self)

    def is_not_null(self) -> ColumnExpr:
        """Test whether the value is not null."""
        return call("is_not_null", self)

    def is_in(self, values: Iterable[object]) -> ColumnExpr:
        """Test whether the value equals one of `values`; false if `values` is empty."""
        if isinstance(values, str | bytes):
            raise QueryError(f"is_in takes several values, not {values!r}", hint=f"write is_in([{values!r}])")
        members = list(values)
        return call("in", self, *members) if members else lit(False)

    def like(self, pattern: object) -> ColumnExpr:
        """Test whether the value matches `pattern`, where `%` stands for any text and `_` for any single character."""
        return call("like", self, pattern)

    def between(self, low: object, high: object) -> ColumnExpr:
        """Test whether the value is at least `low` and at most `high`."""
        return call("between", self, low, high)

    def field(self, name: str) -> ColumnExpr:
        """Take the field `name` of a STRUCT; null if the struct is null."""
        return call("struct_extract", self, name)

    def cast(self, type: str, *, lenient: bool = False) -> ColumnExpr:
        """Convert the value to the SQL type `type`. A value that does not fit is an error, or null if `lenient`."""
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
    """A CASE expression without its ELSE: `branches` are pairs of condition and value."""

    branches: tuple[tuple[Expr, Expr], ...]

    def when(self, condition: object, value: object) -> When:
        """Add a branch: `WHEN condition THEN value`."""
        if isinstance(condition, str):
            raise QueryError(
                "the condition of a CASE cannot be a string",
                detail=repr(condition)[:200],
                hint='write it as in when(col("qty") > 1, ...), or the whole CASE as SQL text in select(...)',
            )
        return When((*self.branches, (as_expr(condition), as_expr(value))))

    def otherwise(self, value: object) -> ColumnExpr:
        """Complete the CASE with `ELSE value`."""
        return ColumnExpr(Case(self.branches, as_expr(value)))


def col(name: str) -> ColumnExpr:
    """Refer to the column called `name`. The name is taken literally, including dots."""
    return ColumnExpr(Column(name))


def lit(value: object) -> ColumnExpr:
    """Make a constant of a Python value."""
    return ColumnExpr(as_expr(value))


def call(function: str, *arguments: object) -> ColumnExpr:
    """Call a scalar function by its SQL name, as in `call("lower", col("name"))`."""
    name = require_function(function, len(arguments)).name
    return ColumnExpr(Call(name, tuple(as_expr(argument) for argument in arguments)))


def when(condition: object, value: object) -> When:
    """Begin `CASE WHEN condition THEN value`; complete it with `.otherwise(...)`."""
    return When(()).when(condition, value)


def as_expr(value: object) -> Expr:
    """Return the tree of an operand: an expression is kept, any other value becomes a constant."""
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
    """Return an argument that is a column or an expression over columns. A string is kept and parsed once the columns
    of the stream are known."""
    return value if isinstance(value, str) else as_expr(value)
