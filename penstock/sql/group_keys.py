"""GROUP BY: expressions, positions and aliases of the select list, and the columns of the window."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from penstock.errors import QueryError
from penstock.expr.tree import Column, Expr
from penstock.sql.expression import translate
from penstock.sql.grouped_expression import AggregateSlot, WindowColumn, columns_in, same
from penstock.sql.over import NumberSlot
from penstock.sql.result_columns import Item
from penstock.sql.scope import Scope
from penstock.sql.tree import extra_parts, place_of, placing, without_parentheses

_NO_AGGREGATE = "an aggregate cannot be grouped by"


@dataclass(frozen=True)
class Keys:
    """The keys without repeats, and whether the window was among what is grouped by."""

    expressions: tuple[Expr, ...]
    windowed: bool

    def without(self, times: Sequence[str]) -> tuple[Expr, ...]:
        """The keys that are none of these columns."""
        return tuple(key for key in self.expressions if not (isinstance(key, Column) and key.name in times))


def keys_of(group: exp.Expr | None, items: Sequence[Item], scope: Scope) -> Keys:
    """What GROUP BY says; `scope` is that of the input, with the borders of the window if there is one."""
    if group is None:
        return Keys((), False)
    if any(extra_parts(group, ("expressions",))):
        raise scope.text.error("GROUP BY takes a list of expressions", place_of(group), hint="list them one by one")
    aliases = {item.alias: item.expression for item in items if item.alias}
    inner = replace(scope, computed={**scope.computed, **aliases}, why_no_aggregate=_NO_AGGREGATE)
    keys = [_key(node, items, inner) for node in group.expressions]
    distinct = {same(key): key for key in keys if not isinstance(key, WindowColumn)}
    return Keys(tuple(distinct.values()), any(isinstance(key, WindowColumn) for key in keys))


def _key(node: exp.Expr, items: Sequence[Item], scope: Scope) -> Expr:
    with placing(node, scope.text):
        key = _position(node, items) or translate(node, scope)
        return key if isinstance(key, WindowColumn) else _plain(key)


def _position(node: exp.Expr, items: Sequence[Item]) -> Expr | None:
    """The item a number stands for."""
    node = without_parentheses(node)
    if not isinstance(node, exp.Literal) or node.is_string:
        return None
    position = int(node.name) if node.name.isdigit() and len(node.name) < 6 else 0
    if not 1 <= position <= len(items):
        detail, hint = f"the query selects {len(items)} columns", f"write a number from 1 to {len(items)}, or a name"
        raise QueryError(f"GROUP BY {node.name} is not a position", detail=detail, hint=hint)
    return items[position - 1].expression


def _plain(key: Expr) -> Expr:
    for column in columns_in(key):
        if isinstance(column, AggregateSlot):
            raise QueryError(_NO_AGGREGATE, hint="group by columns, and filter by aggregates in HAVING")
        if isinstance(column, NumberSlot):
            raise QueryError("the number of a row cannot be grouped by", hint="group in a query around this one")
        if isinstance(column, WindowColumn):
            raise QueryError(
                "GROUP BY takes window_start and window_end as they are", hint="compute with them in SELECT"
            )
    return key
