"""Select lists: what each item computes and what it is called."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from penstock.expressions import Column, Expr
from penstock.plan.naming import default_name, unique_name
from penstock.sql.expression import translate
from penstock.sql.scope import Scope
from penstock.sql.tree import extra_parts, place_of


@dataclass(frozen=True)
class Item:
    """An item of a select list; `alias` is empty where the user gave none."""

    alias: str
    expression: Expr
    node: exp.Expr

    @property
    def default_name(self) -> str:
        return self.alias or default_name(self.expression)


def items_of(select: exp.Select, scope: Scope) -> tuple[Item, ...]:
    """The items of a SELECT; a `*` is one item for each column."""
    if not select.expressions:
        raise scope.text.error("the query selects nothing", place_of(select), hint="write SELECT * for all columns")
    return tuple(item for node in select.expressions for item in _items(node, scope))


def _items(node: exp.Expr, scope: Scope) -> tuple[Item, ...]:
    if is_star(node, scope):
        return tuple(Item("", Column(name), node) for name in scope.columns)
    if isinstance(node, exp.Alias):
        return (Item(node.alias, translate(node.this, scope), node),)
    return (Item("", translate(node, scope), node),)


def is_star(node: exp.Expr, scope: Scope) -> bool:
    """Whether the item is `*` or `stream.*`."""
    star = node.this if isinstance(node, exp.Column) else node
    if not isinstance(star, exp.Star):
        return False
    if any(extra_parts(star, ())):
        raise scope.text.error("`*` cannot be modified", place_of(node), hint="list the columns")
    if (qualifier := node.text("table")) and qualifier.lower() != scope.stream.lower():
        raise scope.text.error(f"unknown stream `{qualifier}`", place_of(node))
    return True


def output_names(items: Sequence[Item], names: Sequence[str], scope: Scope) -> tuple[str, ...]:
    """The names of the result's columns: aliases as they are, the others made unique with a number."""
    taken: set[str] = set()
    for item in items:
        if item.alias and item.alias in taken:
            raise scope.text.error(f"two columns of the result are called `{item.alias}`", place_of(item.node))
        taken |= {item.alias} - {""}
    result: list[str] = []
    for item, name in zip(items, names, strict=True):
        result.append(item.alias or unique_name(name, taken))
        taken.add(result[-1])
    return tuple(result)
