"""Which columns a node's result has, and which of them tells the time."""

from __future__ import annotations

import pyarrow as pa

from penstock.expressions import Column, Named
from penstock.plan.nodes import Aggregate, Filter, Node, Project, Source

WINDOW_START = "window_start"
WINDOW_END = "window_end"
WINDOW_COLUMNS = (WINDOW_START, WINDOW_END)


def columns_of_node(node: Node) -> tuple[str, ...]:
    """The names of the columns of a node's result, in order."""
    match node:
        case Source(schema=schema):
            return tuple(schema.names)
        case Filter(input=below):
            return columns_of_node(below)
        case Project(columns=columns):
            return tuple(named.name for named in columns)
        case Aggregate(keys=keys, aggregates=aggregates):
            return (*(key.name for key in keys), *WINDOW_COLUMNS, *(a.name for a in aggregates))


def time_column(node: Node) -> str | None:
    """The progressing attribute under the name it has in the node's result; None when a projection dropped it."""
    match node:
        case Source(time=time):
            return time
        case Filter(input=below):
            return time_column(below)
        case Project(input=below, columns=columns):
            return _name_of(time_column(below), columns)
        case Aggregate():
            return WINDOW_START


def _name_of(column: str | None, columns: tuple[Named, ...]) -> str | None:
    """The first name under which a projection passes a column on unchanged."""
    if column is None:
        return None
    return next((named.name for named in columns if named.expression == Column(column)), None)


def time_type(node: Node) -> pa.DataType:
    """The type of the progressing attribute, which no operator changes."""
    match node:
        case Source(schema=schema, time=time):
            return schema.field(time).type
        case Filter(input=below) | Project(input=below) | Aggregate(input=below):
            return time_type(below)
