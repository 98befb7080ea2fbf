"""Select lists: the expression and the name of each result column."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from penstock.expr.tree import Column, Expr
from penstock.plan.naming import default_name
from penstock.sql.names.expression import translate
from penstock.sql.names.scope import Scope
from penstock.sql.parse.place import ScriptText
from penstock.sql.parse.tree import extra_parts, place_of
from penstock.sql.select.slots import NUMBER_NAME, NumberSlot
from penstock.types import unique_name


@dataclass(frozen=True)
class SelectItem:
    """An item of a select list. `alias` is empty if there is none; `names` are then its candidate names, best first."""

    alias: str
    expression: Expr
    node: exp.Expr
    names: tuple[str, ...]


def items_of(select: exp.Select, scope: Scope) -> tuple[SelectItem, ...]:
    """Return the items of a SELECT; a `*` becomes one item for each column."""
    if not select.expressions:
        raise scope.text.error("the query selects nothing", place_of(select), hint="write SELECT * for all columns")
    return tuple(item for node in select.expressions for item in _items(node, scope))


def _items(node: exp.Expr, scope: Scope) -> tuple[SelectItem, ...]:
    if is_star(node, scope):
        return tuple(SelectItem("", column, node, (name,)) for name, column in _starred(node, scope))
    if isinstance(node, exp.Alias):
        return (SelectItem(require_name(node, scope.text), translate(node.this, scope), node, ()),)
    expression = translate(node, scope)
    return (SelectItem("", expression, node, names_of(expression, scope)),)


def require_name(node: exp.Alias, text: ScriptText) -> str:
    """Return the name after AS; an empty one is refused."""
    if not node.alias:
        raise text.error("a column cannot have an empty name", place_of(node), hint="write a name after AS")
    return str(node.alias)


def names_of(expression: Expr, scope: Scope) -> tuple[str, ...]:
    """Return the candidate names of an expression without an alias, best first."""
    if isinstance(expression, NumberSlot):
        return (NUMBER_NAME,)
    if merged := [name for name, value in scope.merged.items() if value is expression]:
        return (merged[0],)
    return scope.names_of(expression) if type(expression) is Column else (default_name(expression),)


def _starred(node: exp.Expr, scope: Scope) -> list[tuple[str, Expr]]:
    if not (qualifier := node.text("table")):
        return list(scope.all_columns())
    return [(name, Column(name)) for name in scope.part(qualifier, place_of(node)).columns.values()]


def is_star(node: exp.Expr, scope: Scope) -> bool:
    """Return whether the item is `*` or `stream.*`; `*` with EXCLUDE and the like is refused."""
    star = node.this if isinstance(node, exp.Column) else node
    if not isinstance(star, exp.Star):
        return False
    if any(extra_parts(star, ())):
        raise scope.text.error("`*` cannot be modified", place_of(node), hint="list the columns")
    return True


def output_names(items: Sequence[SelectItem], names: Sequence[tuple[str, ...]], scope: Scope) -> tuple[str, ...]:
    """Return the names of the result's columns: aliases unchanged, others made unique from their candidate `names`."""
    taken: set[str] = set()
    for item in items:
        if item.alias and item.alias in taken:
            what = f"two columns of the result are called `{item.alias}`"
            raise scope.text.error(what, place_of(item.node), hint="give one of them another name after AS")
        taken |= {item.alias} - {""}
    result: list[str] = []
    for item, options in zip(items, names, strict=True):
        result.append(item.alias or free_name(options, taken))
        taken.add(result[-1])
    return tuple(result)


def free_name(options: Sequence[str], taken: set[str]) -> str:
    """Return the first name that is not taken, or the last one with a number appended."""
    return next((name for name in options if name not in taken), None) or unique_name(options[-1], taken)
