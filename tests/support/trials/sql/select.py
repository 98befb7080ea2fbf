"""The query of a trial in Penstock's SQL: one nested SELECT per node."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from penstock.expr.text import quoted
from penstock.expr.tree import Case, Column, Expr, Literal, Named
from penstock.expr.walk import substitute
from penstock.operators.window.kinds import EqualTimes, RowWindow, Session
from penstock.operators.window.windows import Window
from penstock.plan.logical import (
    Aggregate,
    Aggregation,
    AssignWindows,
    Distinct,
    Filter,
    Join,
    Node,
    Order,
    Project,
    Source,
    SplitRows,
    TopN,
    Union,
)
from penstock.plan.schema import WINDOW_COLUMNS, columns_of_node
from penstock.progress.mark import Punctuated
from penstock.types import unique_name
from tests.support.trials.sql.joins import conditions_of
from tests.support.trials.sql.words import NoSql, has_timestamps, item, listed, span, words

_JOINS = {"left": "LEFT", "right": "RIGHT", "full": "FULL", "semi": "SEMI", "anti": "ANTI"}


def sql_of(node: Node) -> str | None:
    """Return a query that gives the same rows; None if SQL cannot express it. The query is not planned, so it may still
    be refused, for example a join whose bounds no times fit."""
    try:
        return select_of(node)
    except NoSql:
        return None


def select_of(node: Node) -> str:
    """Return a query that gives the same rows; raise NoSql if SQL cannot express it."""
    match node:
        case Source(progress=rule) if not isinstance(rule, Punctuated):
            return f"SELECT * FROM {quoted(node.name)}"
        case Filter(below, predicate):
            return f"SELECT * FROM {_from(below)} WHERE {words(predicate)}"
        case SplitRows(below):
            return f"SELECT * FROM {_from(below)} WHERE {_output(node)} = {node.output}"
        case Project(below, columns):
            return f"SELECT {listed(map(item, columns))} FROM {_from(below)}"
        case Union(inputs):
            return "\nUNION ALL\n".join(map(select_of, inputs))
        case AssignWindows(below, window) if not set(WINDOW_COLUMNS) & set(columns_of_node(below)):
            return f"SELECT * FROM {_hop(below, window)}"
        case Aggregate():
            return _aggregate(node)
        case Distinct(below):
            return f"SELECT DISTINCT * FROM {_from(below)}"
        case TopN():
            return _top(node)
        case Join():
            return _join(node)
    raise NoSql(f"there is no SQL for {type(node).__name__}")


def _from(node: Node) -> str:
    """Return a node as an item of FROM."""
    return quoted(node.name) if isinstance(node, Source) else f"(\n{textwrap.indent(select_of(node), '  ')}\n)"


def _output(node: SplitRows) -> str:
    """Return SQL for the number of the output that a row goes to."""
    return words(Case(tuple((p, Literal(n)) for n, p in enumerate(node.predicates)), Literal(len(node.predicates))))


def _hop(below: Node, window: Window) -> str:
    spans = [span(length, has_timestamps(below, window.time)) for length in (window.slide, window.size, window.offset)]
    return f"HOP({_from(below)}, {quoted(window.time)}, {', '.join(spans)})"


def _aggregate(node: Aggregate) -> str:
    if isinstance(node.window, EqualTimes):
        return _grouped(node, node.window.times)
    return _grouped(_without_borders(node), WINDOW_COLUMNS)


def _windowed(below: Node, window: Window | Session | RowWindow | EqualTimes) -> str:
    match window:
        case Window():
            return _hop(below, window)
        case Session(time, gap):
            return f"SESSION({_from(below)}, {quoted(time)}, {span(gap, has_timestamps(below, time))})"
        case RowWindow(size, slide):
            return f"{_from(below)} [ROWS {size} SLIDE {slide}]"
        case EqualTimes():
            return _from(below)


def _grouped(node: Aggregate, borders: Sequence[str]) -> str:
    measures = [f"{_measure(a)} AS {quoted(a.name)}" for a in node.aggregates]
    shown = [*map(item, node.keys), *map(quoted, borders), *measures]
    by = [*(words(key.expression) for key in node.keys), *map(quoted, borders)]
    return f"SELECT {listed(shown)} FROM {_windowed(node.input, node.window)} GROUP BY {listed(by)}"


def _measure(aggregation: Aggregation) -> str:
    if aggregation.argument is None:
        return "count(*)"
    argument = words(aggregation.argument)
    distinct = aggregation.function == "count_distinct"
    return f"count(DISTINCT {argument})" if distinct else f"{aggregation.function}({argument})"


def _without_borders(node: Aggregate) -> Aggregate:
    """Rename input columns that have the names of the window borders, which would hide them."""
    columns = columns_of_node(node.input)
    names = {name: unique_name(f"input_{name}", columns) for name in columns if name in WINDOW_COLUMNS}
    if not names:
        return node
    bindings: dict[str, Expr] = {old: Column(new) for old, new in names.items()}
    keys = tuple(Named(key.name, substitute(key.expression, bindings)) for key in node.keys)
    measures = tuple(
        Aggregation(a.name, a.function, None if a.argument is None else substitute(a.argument, bindings))
        for a in node.aggregates
    )
    below = Project(node.input, tuple(Named(names.get(name, name), Column(name)) for name in columns))
    return Aggregate(below, keys, _renamed(node.window, names), measures)


def _renamed(
    window: Window | Session | RowWindow | EqualTimes, names: dict[str, str]
) -> Window | Session | RowWindow | EqualTimes:
    match window:
        case Window(time, size, slide, offset):
            return Window(names.get(time, time), size, slide, offset)
        case Session(time, gap):
            return Session(names.get(time, time), gap)
    return window


def _top(node: TopN) -> str:
    """Return SQL for a top-n. Ties are ordered by all columns, so without an order the first column can be named."""
    columns = columns_of_node(node.input)
    order = node.order or (Order(Column(columns[0])),)
    keys = [*([] if node.time is None else [quoted(node.time)]), *map(words, node.keys)]
    partition = f"PARTITION BY {listed(keys)} " if keys else ""
    place = f"ROW_NUMBER() OVER ({partition}ORDER BY {listed(map(_ordering, order))})"
    number = [] if node.number is None else [f"{place} AS {quoted(node.number)}"]
    shown = listed([*map(quoted, columns), *number])
    return f"SELECT {shown} FROM {_from(node.input)} QUALIFY {place} <= {node.n}"


def _ordering(order: Order) -> str:
    direction, nulls = "DESC" if order.descending else "ASC", "FIRST" if order.nulls_first else "LAST"
    return f"{words(order.expression)} {direction} NULLS {nulls}"


def _join(node: Join) -> str:
    """Return SQL for a join. The columns of each input are renamed as in the result first, so that all names differ."""
    sides = [_side(below, names) for below, names in zip(node.inputs, node.names, strict=True)]
    if node.last_rows is not None:
        sides = [f"{side} [ROWS {rows}]" for side, rows in zip(sides, node.last_rows, strict=True)]
    conditions = " AND ".join(conditions_of(node))
    if node.kind == "inner":
        return f"SELECT * FROM {', '.join(sides)}" + (f" WHERE {conditions}" if conditions else "")
    return f"SELECT * FROM {sides[0]} {_JOINS[node.kind]} JOIN {sides[1]} ON {conditions}"


def _side(below: Node, names: Sequence[str]) -> str:
    columns = columns_of_node(below)
    renamed = tuple(Named(new, Column(old)) for new, old in zip(names, columns, strict=True))
    return _from(below if tuple(names) == columns else Project(below, renamed))
