"""The columns of each node's result, and which of them are progressing attributes."""

from __future__ import annotations

import pyarrow as pa

from penstock.arrow import type_in
from penstock.expr.tree import Column, Named
from penstock.operators.window.kinds import EqualTimes, RowWindow, Session
from penstock.operators.window.windows import Window
from penstock.plan.logical import (
    Aggregate,
    AssignWindows,
    Distinct,
    Filter,
    InOrder,
    Join,
    MapBatches,
    Node,
    Project,
    Source,
    SplitRows,
    TopN,
    Union,
)

WINDOW_START = "window_start"
WINDOW_END = "window_end"
WINDOW_COLUMNS = (WINDOW_START, WINDOW_END)


def columns_of_node(node: Node) -> tuple[str, ...]:
    """Return the names of the columns of a node's result, in order."""
    match node:
        case Source(schema=schema) | MapBatches(schema=schema):
            return tuple(schema.names)
        case Filter(input=below) | SplitRows(input=below) | Distinct(input=below) | InOrder(input=below):
            return columns_of_node(below)
        case Union(inputs=inputs):
            return columns_of_node(inputs[0])
        case Project(columns=columns):
            return tuple(named.name for named in columns)
        case AssignWindows(input=below):
            return (*columns_of_node(below), *WINDOW_COLUMNS)
        case TopN(input=below, number=number):
            return (*columns_of_node(below), *([number] if number is not None else []))
        case Join(kind="semi" | "anti", names=names):
            return names[0]
        case Join(names=names):
            return tuple(name for of_input in names for name in of_input)
        case Aggregate(keys=keys, window=window, aggregates=aggregates):
            borders = window.times if isinstance(window, EqualTimes) else WINDOW_COLUMNS
            return (*(key.name for key in keys), *borders, *(a.name for a in aggregates))


def times_of(node: Node) -> tuple[str, ...]:
    """Return the progressing attributes of a node's result by name, the primary one first. Empty if a projection
    dropped them or if they may be null."""
    match node:
        case Source(time=time):
            return (time,)
        case Filter(input=below) | SplitRows(input=below):
            return times_of(below)
        case Project(input=below, columns=columns):
            return tuple(name for time in times_of(below) for name in _names_of(time, columns))
        case MapBatches(time=time) | Distinct(time=time) | TopN(time=time) | InOrder(time=time):
            return () if time is None else (time,)
        case Union(inputs=inputs):
            return _times_of_union(inputs)
        case AssignWindows(input=below):
            return (*WINDOW_COLUMNS, *times_of(below))
        case Aggregate(window=window):
            return _times_of_aggregate(window)
        case Join():
            return _times_of_join(node)


def _names_of(column: str, columns: tuple[Named, ...]) -> list[str]:
    """Return the names under which a projection passes a column on unchanged."""
    return [named.name for named in columns if named.expression == Column(column)]


def _times_of_union(inputs: tuple[Node, ...]) -> tuple[str, ...]:
    """Return the columns that are progressing in every input, matched by position."""
    first = columns_of_node(inputs[0])
    positions = [{columns_of_node(node).index(time) for time in times_of(node)} for node in inputs]
    common = set.intersection(*positions)
    return tuple(time for time in times_of(inputs[0]) if first.index(time) in common)


def _times_of_aggregate(window: Window | Session | RowWindow | EqualTimes) -> tuple[str, ...]:
    """Return the progressing attributes of an aggregate's result."""
    match window:
        case EqualTimes(times):
            return times
        case Session():
            return (WINDOW_END,)
        case _:
            return WINDOW_COLUMNS


def _times_of_join(node: Join) -> tuple[str, ...]:
    """Return the times that are never null and that punctuation bounds. A join over the last n rows has none: a partner
    may be of any age."""
    if node.last_rows is not None:
        return ()
    named = [
        names[columns_of_node(part).index(time)]
        for part, time, names in zip(node.inputs, node.times, node.names, strict=True)
    ]
    match node.kind:
        case "inner":
            return tuple(named)
        case "full":
            return ()
        case "right":
            return (named[1],)
        case _:
            return (named[0],)


def time_column(node: Node) -> str | None:
    """Return the primary progressing attribute; None if there is none."""
    return next(iter(times_of(node)), None)


def time_type(node: Node) -> pa.DataType:
    """Return the type of the progressing attributes, the same for all; BIGINT for row numbers."""
    match node:
        case Source(schema=schema, time=time):
            return type_in(schema, time)
        case MapBatches(schema=schema, time=str(time)):
            return type_in(schema, time)
        case Aggregate(window=RowWindow()):
            return pa.int64()
        case Union(inputs=inputs) | Join(inputs=inputs):
            return time_type(inputs[0])
        case _:
            return time_type(node.input)
