"""Strings as arguments of a stream's methods: a column name if the stream has that column, otherwise SQL text.

So `select("a", "a + b AS c")` and `where("qty > 1")` mean what they mean in SQL, by the same parser. A text constant is
`ps.lit("call")`, or `'call'` inside SQL text; as an operand, as in `col("kind") == "call"`, a string is a constant.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from penstock.api.columns import as_expr
from penstock.errors import QueryError
from penstock.expr.tree import Column, Expr, Named
from penstock.plan.logical import Aggregation
from penstock.plan.naming import default_name
from penstock.plan.size import MAX_HEIGHT, is_too_deep


def expression_of(value: object, columns: Collection[str], what: str) -> Expr:
    """Return the expression tree of an argument over these columns; `what` names the place in messages about SQL
    text."""
    if not isinstance(value, str):
        return _limited(as_expr(value), what)
    if value in columns:
        return Column(value)
    from penstock.sql import lone_expression  # imported late: the parser takes a while to load

    try:
        return lone_expression(value, columns, what)
    except QueryError as error:
        if not value.isidentifier():
            raise
        hint = f"{error.hint}; the text itself is ps.lit({value!r})"
        raise type(error)(error.what, detail=error.detail, hint=hint) from error


def _limited(tree: Expr, what: str) -> Expr:
    """Return `tree` after checking that it is not nested too deep."""
    if is_too_deep(tree):
        raise QueryError(
            f"the expression in {what} is nested more than {MAX_HEIGHT} operators deep",
            hint="compute a part of it in a with_columns(...) before; a long chain of | can be written as is_in([...])",
        )
    return tree


def items_of(
    plain: Iterable[object], computed: Iterable[tuple[str, object]], columns: Collection[str], what: str
) -> tuple[Named, ...]:
    """Return the columns of a select: by name, as expressions or as SQL text with or without AS; then those by
    keyword."""
    named = [Named(name, expression_of(value, columns, f"{what}({name}=...)")) for name, value in computed]
    return (*(item for value in plain for item in _items(value, columns, f"{what}(...)")), *named)


def _items(value: object, columns: Collection[str], what: str) -> tuple[Named, ...]:
    if not isinstance(value, str) or value in columns:
        tree = expression_of(value, columns, what)
        return (Named(default_name(tree), tree),)
    from penstock.sql import lone_items

    return lone_items(value, columns, what)


def aggregate_of(text: str, columns: Collection[str], what: str) -> Aggregation:
    """Parse an aggregate written as SQL text."""
    from penstock.sql import lone_aggregate

    return lone_aggregate(text, columns, what)
