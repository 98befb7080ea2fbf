"""A SELECT with a window and aggregates: Aggregate -> [Filter (HAVING)] -> Project."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import count

from sqlglot import exp

from penstock.errors import QueryError
from penstock.expressions import Call, Column, Expr, Named
from penstock.operators.window import Window
from penstock.plan.columns import WINDOW_COLUMNS
from penstock.plan.naming import aggregate_name, default_name, unique_name
from penstock.plan.nodes import Aggregate, Aggregation, Filter, Node, Project
from penstock.sql.aggregate_call import AggregateCall, aggregate_call
from penstock.sql.expression import translate
from penstock.sql.group_keys import Keys, keys_of
from penstock.sql.grouped_expression import WINDOW_SCOPE, AggregateSlot, as_written, over_result, same
from penstock.sql.result_columns import Item, is_star, items_of, output_names
from penstock.sql.scope import Scope
from penstock.sql.tree import place_of, placing


@dataclass
class _Aggregates:
    """The distinct aggregates of a query, in the order in which they are met."""

    rows: Scope
    calls: dict[str, AggregateCall] = field(default_factory=dict)

    def take(self, node: exp.Expr) -> Expr:
        call = aggregate_call(node, self.rows)
        key = repr(call)
        self.calls.setdefault(key, call)
        arguments = () if call.argument is None else (call.argument,)
        return AggregateSlot(call.function, list(self.calls).index(key), Call(call.function, arguments))


@dataclass(frozen=True)
class _Names:
    """What keys and aggregates are called in the Aggregate; all names in it are different."""

    keys: tuple[str, ...]
    aggregates: tuple[str, ...]


def grouped(select: exp.Select, below: Node, window: Window, rows: Scope, implied: bool) -> Node:
    """The plan of a grouped SELECT over `below`, whose columns `rows` knows."""
    aggregates = _Aggregates(rows)
    scope = replace(rows, computed=WINDOW_SCOPE, on_aggregate=aggregates.take)
    items = _items(select, scope)
    keys = keys_of(select.args.get("group"), items, rows)
    if not (keys.windowed or implied):
        raise _window_not_grouped(select, rows)
    having = _having(select.args.get("having"), items, scope)
    calls = tuple(aggregates.calls.values())
    names = _names(keys, calls, items)
    node = _aggregate(below, keys, window, calls, names)
    return _result(node, having, items, _to_result(keys, names), names, scope)


def _items(select: exp.Select, scope: Scope) -> tuple[Item, ...]:
    star = next((node for node in select.expressions if is_star(node, scope)), None)
    if star is not None:
        raise scope.text.error("`*` cannot be selected from groups", place_of(star), hint="list the columns")
    return items_of(select, scope)


def _window_not_grouped(select: exp.Select, scope: Scope) -> QueryError:
    return scope.text.error(
        "the window is not in GROUP BY",
        place_of(select.args.get("group") or select),
        detail="an aggregate over all windows together would never be complete",
        hint="add window_start to GROUP BY",
    )


def _having(clause: exp.Expr | None, items: Sequence[Item], scope: Scope) -> tuple[Expr, exp.Expr] | None:
    """The predicate, which may also use the aliases of the select list, and its tree."""
    if clause is None:
        return None
    aliases = {item.alias: item.expression for item in items if item.alias}
    return translate(clause.this, replace(scope, computed=scope.computed | aliases)), clause


def _names(keys: Keys, calls: Sequence[AggregateCall], items: Sequence[Item]) -> _Names:
    taken = list(WINDOW_COLUMNS)
    aliases = {same(item.expression): item.alias for item in reversed(items) if item.alias}
    for key in keys.expressions:
        taken.append(unique_name(aliases.get(same(key)) or default_name(key), taken))
    first = len(taken)
    chosen = [_chosen_name(i, call, items) for i, call in enumerate(calls)]
    for name in chosen:
        taken.append(unique_name(name, taken) if name else "")
    numbers = (name for n in count(1) if (name := f"agg_{n}") not in taken)
    return _Names(tuple(taken[2:first]), tuple(name or next(numbers) for name in taken[first:]))


def _chosen_name(index: int, call: AggregateCall, items: Sequence[Item]) -> str:
    """The name of an aggregate that is a whole item of the select list; empty where it is only part of one."""
    whole = [i for i in items if isinstance(i.expression, AggregateSlot) and i.expression.index == index]
    if not whole:
        return ""
    return next((item.alias for item in whole if item.alias), aggregate_name(call.function, call.argument))


def _aggregate(below: Node, keys: Keys, window: Window, calls: Sequence[AggregateCall], names: _Names) -> Aggregate:
    named_keys = tuple(map(Named, names.keys, keys.expressions))
    aggregations = tuple(Aggregation(n, c.function, c.argument) for n, c in zip(names.aggregates, calls, strict=True))
    return Aggregate(below, named_keys, window, aggregations)


ToResult = Callable[[Expr], Expr]


def _to_result(keys: Keys, names: _Names) -> ToResult:
    key_names = dict(zip(map(same, keys.expressions), names.keys, strict=True))
    return lambda expression: over_result(expression, key_names, names.aggregates)


def _result(
    node: Node,
    having: tuple[Expr, exp.Expr] | None,
    items: Sequence[Item],
    to_result: ToResult,
    names: _Names,
    scope: Scope,
) -> Node:
    if having is not None:
        node = Filter(node, _placed(to_result, having[0], having[1], scope))
    expressions = [_placed(to_result, item.expression, item.node, scope) for item in items]
    defaults = [_default_name(item, expression) for item, expression in zip(items, expressions, strict=True)]
    return Project(node, tuple(map(Named, output_names(items, defaults, scope), expressions)))


def _placed(to_result: ToResult, expression: Expr, node: exp.Expr, scope: Scope) -> Expr:
    with placing(node, scope.text):
        return to_result(expression)


def _default_name(item: Item, expression: Expr) -> str:
    """A whole aggregate or key goes by the name it has in the Aggregate, anything else by its text."""
    return (
        expression.name if isinstance(expression, Column) else item.alias or default_name(as_written(item.expression))
    )
