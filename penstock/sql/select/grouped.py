"""Plan a SELECT with GROUP BY or aggregates: Aggregate -> [Filter (HAVING)], and the columns over it.

GROUP BY takes expressions, positions and aliases of the select list, and the columns of the window.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import count

from sqlglot import exp

from penstock.errors import PenstockError, QueryError
from penstock.expr.tree import Call, Column, Expr, Named
from penstock.operators.window.kinds import EqualTimes, RowWindow, Session
from penstock.operators.window.windows import Window
from penstock.plan.compile.prepare_aggregate import check_argument
from penstock.plan.compile.subqueries import node_schema
from penstock.plan.logical import Aggregate, Aggregation, Filter, Node, Project, Source
from penstock.plan.lost_time import why_no_time
from penstock.plan.naming import aggregate_name, default_name
from penstock.plan.schema import WINDOW_COLUMNS, times_of
from penstock.sql.names.aggregate_call import AggregateCall, aggregate_call
from penstock.sql.names.aggregate_names import has_aggregate
from penstock.sql.names.expression import translate
from penstock.sql.names.scope import Scope
from penstock.sql.parse.tree import extra_parts, place_of, placing, without_parentheses
from penstock.sql.select.over import Numbering, Over
from penstock.sql.select.result_columns import SelectItem, free_name, is_star, items_of, names_of, output_names
from penstock.sql.select.rows import SelectInput
from penstock.sql.select.shaped import Shaped, qualify_of
from penstock.sql.select.slots import (
    WINDOW_SCOPE,
    AggregateSlot,
    NumberSlot,
    WindowColumn,
    as_written,
    columns_in,
    over_result,
    same,
)

_ToResult = Callable[[Expr], Expr]
_NEEDS_WINDOW = "a continuous aggregate needs a window: without one it would never be complete"
_AS_IN = "as in FROM TUMBLE(calls, ts, INTERVAL '1' MINUTE) ... GROUP BY window_start"
_NO_AGGREGATE = "an aggregate is not allowed in GROUP BY"


@dataclass
class _Aggregates:
    """The distinct aggregates of a query, in the order of their first occurrence, which `trees` has."""

    rows: Scope
    calls: dict[str, AggregateCall] = field(default_factory=dict)
    trees: dict[str, exp.Expr] = field(default_factory=dict)

    def take(self, node: exp.Expr) -> Expr:
        """Register an aggregate call and return the slot of its result."""
        call = aggregate_call(node, self.rows)
        key = repr(call)
        self.calls.setdefault(key, call)
        self.trees.setdefault(key, node)
        arguments = () if call.argument is None else (call.argument,)
        return AggregateSlot(call.function, list(self.calls).index(key), Call(call.function, arguments))

    def check(self, below: Node) -> None:
        """Refuse an argument of a type that its aggregate does not take."""
        if all(call.argument is None for call in self.calls.values()):
            return
        try:
            schema = node_schema(below)
        except PenstockError:
            return  # an error of the rows: it is raised when the query is compiled
        for key, call in self.calls.items():
            with placing(self.trees[key], self.rows.text):
                check_argument(Aggregation("", call.function, call.argument), schema)


@dataclass(frozen=True)
class _SelectNames:
    """The column names of keys and aggregates in the Aggregate. Invariant: all are different."""

    keys: tuple[str, ...]
    aggregates: tuple[str, ...]


@dataclass(frozen=True)
class _Read:
    """A grouped SELECT, over the columns of its input and slots for values that only the result has."""

    items: tuple[SelectItem, ...]
    groups: _Groups
    having: tuple[Expr, exp.Expr] | None
    qualify: tuple[Expr, ...]
    over: Over | None
    calls: tuple[AggregateCall, ...]


def grouped(select: exp.Select, rows: SelectInput, numbering: Numbering) -> Shaped:
    """Plan the groups of a SELECT and the columns computed from them."""
    read = _read(select, rows, numbering)
    names = _names(read.groups, read.calls, read.items, rows.scope)
    to_result = _to_result(read.groups, names)
    return Shaped(
        _kept(_aggregate(rows.node, read.groups, read.calls, names), read.having, to_result, rows.scope),
        _columns(read.items, to_result, rows.scope),
        read.over.mapped(to_result) if read.over is not None else None,
        tuple(map(to_result, read.qualify)),
    )


def _read(select: exp.Select, rows: SelectInput, numbering: Numbering) -> _Read:
    """Read all clauses before the Aggregate is built: each of them can contain aggregates."""
    aggregates = _Aggregates(rows.scope)
    borders = rows.scope if rows.window is None else replace(rows.scope, computed=WINDOW_SCOPE)
    scope = replace(borders, on_aggregate=aggregates.take, on_over=numbering.take)
    items = _items(select, scope)
    groups = _groups_of(select, rows, _keys_of(select.args.get("group"), items, borders))
    having = _having(select.args.get("having"), items, scope)
    qualify, over = qualify_of(select, items, scope), numbering.over(scope)
    aggregates.check(rows.node)
    calls = tuple(aggregates.calls.values()) or (AggregateCall("count", None),)  # an Aggregate needs at least one
    return _Read(items, groups, having, qualify, over, calls)


def _items(select: exp.Select, scope: Scope) -> tuple[SelectItem, ...]:
    star = next((node for node in select.expressions if is_star(node, scope)), None)
    if star is not None:
        raise scope.text.error("`*` cannot be selected from groups", place_of(star), hint="list the columns")
    return items_of(select, scope)


def _having(clause: exp.Expr | None, items: Sequence[SelectItem], scope: Scope) -> tuple[Expr, exp.Expr] | None:
    """Return the predicate of HAVING, which can use aliases of the select list, and its tree; None without HAVING."""
    if clause is None:
        return None
    aliases = {item.alias: item.expression for item in items if item.alias}
    inner = replace(scope, computed={**scope.computed, **aliases}, on_over=None)
    return translate(clause.this, inner), clause


def _names(groups: _Groups, calls: Sequence[AggregateCall], items: Sequence[SelectItem], scope: Scope) -> _SelectNames:
    """Choose the column names of the Aggregate, preferring those that the select list gives."""
    taken = set(groups.borders)
    aliases = {same(item.expression): item.alias for item in reversed(items) if item.alias}
    keys: list[str] = []
    for key in groups.keys:
        alias = aliases.get(same(key))
        keys.append(free_name((alias,) if alias else names_of(key, scope), taken))
        taken.add(keys[-1])
    chosen = [_chosen_name(i, call, items) for i, call in enumerate(calls)]
    for i, name in enumerate(chosen):
        chosen[i] = free_name((name,), taken) if name else ""
        taken.add(chosen[i])
    numbers = (name for n in count(1) if (name := f"agg_{n}") not in taken)
    return _SelectNames(tuple(keys), tuple(name or next(numbers) for name in chosen))


def _chosen_name(index: int, call: AggregateCall, items: Sequence[SelectItem]) -> str:
    """Return the name of an aggregate that is an item of the select list; "" if it is only part of an item."""
    whole = [i for i in items if isinstance(i.expression, AggregateSlot) and i.expression.index == index]
    if not whole:
        return ""
    return next((item.alias for item in whole if item.alias), aggregate_name(call.function, call.argument))


def _aggregate(below: Node, groups: _Groups, calls: Sequence[AggregateCall], names: _SelectNames) -> Aggregate:
    named_keys = tuple(map(Named, names.keys, groups.keys))
    aggregations = tuple(Aggregation(n, c.function, c.argument) for n, c in zip(names.aggregates, calls, strict=True))
    return Aggregate(below, named_keys, groups.window, aggregations)


def _to_result(groups: _Groups, names: _SelectNames) -> _ToResult:
    """Return a function that rewrites an expression over the input to the columns of the Aggregate."""
    known = dict(zip(map(same, groups.keys), names.keys, strict=True))
    if isinstance(groups.window, EqualTimes):
        known |= {same(Column(time)): time for time in groups.window.times}
    return lambda expression: over_result(expression, known, names.aggregates)


def _kept(node: Node, having: tuple[Expr, exp.Expr] | None, to_result: _ToResult, scope: Scope) -> Node:
    return node if having is None else Filter(node, _placed(to_result, having[0], having[1], scope))


def _columns(items: Sequence[SelectItem], to_result: _ToResult, scope: Scope) -> tuple[Named, ...]:
    expressions = [_placed(to_result, item.expression, item.node, scope) for item in items]
    names = [_default_names(item, expression) for item, expression in zip(items, expressions, strict=True)]
    return tuple(map(Named, output_names(items, names, scope), expressions))


def _placed(to_result: _ToResult, expression: Expr, node: exp.Expr, scope: Scope) -> Expr:
    with placing(node, scope.text):
        return to_result(expression)


def _default_names(item: SelectItem, expression: Expr) -> tuple[str, ...]:
    """Return the name of an item without an alias: of a column its own, of a key or aggregate that of the Aggregate,
    else its text."""
    if item.names and (type(item.expression) is Column or isinstance(item.expression, NumberSlot)):
        return item.names
    return (expression.name,) if isinstance(expression, Column) else (default_name(as_written(item.expression)),)


@dataclass(frozen=True)
class _Groups:
    """The keys and the window of a grouped SELECT. `borders` are the window's, or the time, columns of the result."""

    keys: tuple[Expr, ...]
    window: Window | Session | RowWindow | EqualTimes
    borders: tuple[str, ...]


def _groups_of(select: exp.Select, rows: SelectInput, keys: _Keys) -> _Groups:
    """Return the groups of a SELECT."""
    if rows.window is None:
        return _moments(select, rows, keys)
    if not (keys.windowed or rows.implied):
        raise _window_not_grouped(select, rows)
    if isinstance(rows.window, RowWindow):
        _check_numbered(select, rows)
    if rows.partition is not None:
        _check_partition(select, rows, keys)
    return _Groups(keys.expressions, rows.window, WINDOW_COLUMNS)


def _moments(select: exp.Select, rows: SelectInput, keys: _Keys) -> _Groups:
    """Group by equal times: without a window, a group is complete when the watermark passes the times it is grouped
    by."""
    known = times_of(rows.node)
    times = tuple(key.name for key in keys.expressions if isinstance(key, Column) and key.name in known)
    if not times:
        named = " or ".join(f"`{time}`" for time in known)
        detail, hint = ("", f"or group by {named}") if known else why_no_time(rows.node)
        hint = f"{_AS_IN}; {hint}"
        raise rows.scope.text.error(_NEEDS_WINDOW, _aggregate_place(select), detail=detail, hint=hint)
    return _Groups(keys.without(times), EqualTimes(times), times)


def _aggregate_place(select: exp.Select) -> int:
    return place_of(next((e for e in select.expressions if has_aggregate(e)), select))


def _window_not_grouped(select: exp.Select, rows: SelectInput) -> QueryError:
    return rows.scope.text.error(
        "the window is not in GROUP BY",
        place_of(select.args.get("group") or select),
        detail="an aggregate over all windows together would never be complete",
        hint="add window_start to GROUP BY",
    )


def _check_numbered(select: exp.Select, rows: SelectInput) -> None:
    """Refuse a window of rows unless its rows come straight from a source."""
    node: Node = rows.node
    while isinstance(node, Filter | Project):
        node = node.input
    if not isinstance(node, Source):
        raise rows.scope.text.error(
            "a window of rows is only possible over a source",
            place_of(select.args["from_"]),
            detail="the rows of a join, a union or an aggregate have no stable numbers",
            hint="use a window of time, as in [RANGE 1 MINUTE]",
        )


def _check_partition(select: exp.Select, rows: SelectInput, keys: _Keys) -> None:
    """Refuse a GROUP BY that differs from the PARTITION BY of the session."""
    grouped = {key.name for key in keys.expressions if isinstance(key, Column)}
    partition: Sequence[str] = rows.partition or ()
    if grouped != set(partition) or len(grouped) != len(keys.expressions):
        raise rows.scope.text.error(
            "GROUP BY differs from the PARTITION BY of the session",
            place_of(select.args.get("group") or select),
            hint="GROUP BY " + ", ".join((*partition, "window_start")) + ", or leave PARTITION BY out",
        )


@dataclass(frozen=True)
class _Keys:
    """The distinct keys of GROUP BY, and whether it names the window."""

    expressions: tuple[Expr, ...]
    windowed: bool

    def without(self, times: Sequence[str]) -> tuple[Expr, ...]:
        """Return the keys that are none of these time columns."""
        return tuple(key for key in self.expressions if not (isinstance(key, Column) and key.name in times))


def _keys_of(group: exp.Expr | None, items: Sequence[SelectItem], scope: Scope) -> _Keys:
    """Read GROUP BY; `scope` is that of the input, with window_start and window_end if there is a window."""
    if group is None:
        return _Keys((), False)
    if any(extra_parts(group, ("expressions",))):
        raise scope.text.error("GROUP BY takes a list of expressions", place_of(group), hint="list them one by one")
    aliases = {item.alias: item.expression for item in items if item.alias}
    inner = replace(scope, computed={**scope.computed, **aliases}, why_no_aggregate=_NO_AGGREGATE)
    keys = [_key(node, items, inner) for node in group.expressions]
    distinct = {same(key): key for key in keys if not isinstance(key, WindowColumn)}
    return _Keys(tuple(distinct.values()), any(isinstance(key, WindowColumn) for key in keys))


def _key(node: exp.Expr, items: Sequence[SelectItem], scope: Scope) -> Expr:
    with placing(node, scope.text):
        key = _position(node, items) or translate(node, scope)
        return key if isinstance(key, WindowColumn) else _plain(key)


def _position(node: exp.Expr, items: Sequence[SelectItem]) -> Expr | None:
    """Return the item that a number in GROUP BY stands for; None if the tree is not a number."""
    node = without_parentheses(node)
    if not isinstance(node, exp.Literal) or node.is_string:
        return None
    position = int(node.name) if node.name.isdigit() and len(node.name) < 6 else 0
    if not 1 <= position <= len(items):
        detail, hint = f"the query selects {len(items)} columns", f"write a number from 1 to {len(items)}, or a name"
        raise QueryError(f"GROUP BY {node.name} is not a position", detail=detail, hint=hint)
    return items[position - 1].expression


def _plain(key: Expr) -> Expr:
    """Return the key; refuse aggregates, row numbers and expressions over window columns in it."""
    for column in columns_in(key):
        if isinstance(column, AggregateSlot):
            raise QueryError(_NO_AGGREGATE, hint="group by columns, and filter by aggregates in HAVING")
        if isinstance(column, NumberSlot):
            raise QueryError("ROW_NUMBER() is not allowed in GROUP BY", hint="group in a query around this one")
        if isinstance(column, WindowColumn):
            raise QueryError(
                "GROUP BY takes window_start and window_end as they are", hint="compute with them in SELECT"
            )
    return key
