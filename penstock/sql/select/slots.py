"""Slots: columns that stand for what only the result of a query has, as an aggregate or the number of a row.

Expressions of a grouped query are about two things at once: rows that go in, and groups that come out. They are built
over the columns of the input and slots, and `over_result` turns the whole into an expression over the columns of the
result.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from penstock.errors import QueryError
from penstock.expr.tree import Call, Column, Expr
from penstock.expr.walk import replaced, walk
from penstock.plan.schema import WINDOW_COLUMNS


@dataclass(frozen=True)
class WindowColumn(Column):
    """`window_start` or `window_end` of the result."""


@dataclass(frozen=True)
class AggregateSlot(Column):
    """The result of the aggregate with this index, before it has a column name; `name` is its function."""

    index: int
    call: Call


@dataclass(frozen=True)
class NumberSlot(Column):
    """The number of a row, before it has a column name."""


ROW_NUMBER_SLOT = NumberSlot("#row_number")  # no column can be called so
NUMBER_NAME = "row_number"
WINDOW_SCOPE: dict[str, Expr] = {name: WindowColumn(name) for name in WINDOW_COLUMNS}


def same(expression: Expr) -> str:
    """Return a key that is equal for equal expressions. Python takes 1, 1.0 and TRUE for equal; a query does not."""
    return repr(expression)


def over_result(expression: Expr, keys: Mapping[str, str], aggregates: tuple[str, ...]) -> Expr:
    """Rewrite the expression to the result's columns; a column that is not grouped is an error.

    `keys` maps `same(key)` to its column, `aggregates` has the column of each slot.
    """

    def in_result(part: Expr) -> Expr | None:
        if (key := keys.get(same(part))) is not None:
            return Column(key)
        match part:
            case AggregateSlot(index=index):
                return Column(aggregates[index])
            case WindowColumn(name):
                return Column(name)
            case NumberSlot():
                return part
            case Column(name):
                raise _not_grouped(name)
        return None

    return replaced(expression, in_result)


def as_written(expression: Expr) -> Expr:
    """Return the expression with aggregates as calls, for display; `count(*)` is `count()`, as in DuckDB."""
    return replaced(expression, lambda part: part.call if isinstance(part, AggregateSlot) else None)


def _not_grouped(column: str) -> QueryError:
    """Return the error for a column outside GROUP BY and aggregates."""
    return QueryError(
        f"column `{column}` is neither in GROUP BY nor inside an aggregate",
        hint=f"add `{column}` to GROUP BY, or aggregate it, as in first({column}) or max({column})",
    )


def columns_in(expression: Expr) -> Iterator[Column]:
    """Yield the columns that an expression reads, of all kinds, with repeats."""
    return (part for part in walk(expression) if isinstance(part, Column))
