"""Stateless nodes that do more than compute columns: functions over batches, unions, the assignment of windows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa

from penstock.errors import QueryError
from penstock.expr.tree import Column, Named
from penstock.operators.window.windows import Window
from penstock.plan.compile.flow import Flow, Stream, assigned, projected
from penstock.plan.compile.prepare import require_time
from penstock.plan.logical import MapBatches
from penstock.plan.program import Apply
from penstock.plan.schema import WINDOW_COLUMNS
from penstock.plan.window_bounds import check_assigned
from penstock.types import is_time_type, sql_type


def mapped(node: MapBatches, stream: Stream) -> Stream:
    """A stream behind a Python function: of its times, the first is still known, if the node says under what name."""
    if node.time is None:
        return stream.each(lambda flow: _behind(flow, node, None), node.schema)
    before = next((name for name in stream.flows[0].times if all(name in f.times for f in stream.flows)), None)
    if before is None or node.time not in node.schema.names:
        raise QueryError(
            f"`{node.time}` cannot be the time behind the function `{node.function.name}`",
            detail="it is not a column of its result" if before else "the stream has no time any more",
            hint="name a column of the result that keeps the time of the stream, or give time=None",
        )
    return stream.each(lambda flow: _behind(flow, node, before), node.schema)


def _behind(flow: Flow, node: MapBatches, before: str | None) -> Flow:
    if before is None or node.time is None:
        return replace(flow.then(Apply(node.function, node.schema, None)), times={}, joint=None)
    step = Apply(node.function, node.schema, (before, node.time))
    return replace(flow.then(step), times={node.time: flow.times[before]}, joint=None)


def united(streams: Sequence[Stream]) -> Stream:
    """All flows of all streams, with the columns of the first; no row waits for another."""
    first = streams[0].schema
    for n, stream in enumerate(streams[1:], 2):
        _check_same_types(first, stream.schema, n)
    return Stream(tuple(_renamed(flow, s.schema, first) for s in streams for flow in s.flows), first)


def _renamed(flow: Flow, before: pa.Schema, after: pa.Schema) -> Flow:
    if before.names == after.names:
        return flow
    return projected(flow, tuple(Named(new, Column(old)) for new, old in zip(after.names, before.names, strict=True)))


def _check_same_types(first: pa.Schema, other: pa.Schema, number: int) -> None:
    if [field.type for field in first] != [field.type for field in other]:
        raise QueryError(
            "the inputs of a union must have columns of the same types, in the same order",
            detail=f"the first has ({_types(first)}), number {number} has ({_types(other)})",
            hint="select and cast the columns so that they agree",
        )


def _types(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {sql_type(field.type)}" for field in schema)


def windowed(stream: Stream, window: Window) -> Stream:
    """Each row once for every window it is in."""
    require_time(stream, window.time)
    type_ = stream.schema.field(window.time).type
    if not is_time_type(type_):
        raise QueryError(
            f"a window cannot be over `{window.time}`",
            detail=f"it is {sql_type(type_)}",
            hint="the time of a window is a TIMESTAMP or a BIGINT",
        )
    check_assigned(window, type_)
    if taken := [name for name in WINDOW_COLUMNS if name in stream.schema.names]:
        raise QueryError(f"the stream has a column `{taken[0]}` already", hint="give it another name in a select")
    schema = pa.schema([*stream.schema, *(pa.field(name, type_) for name in WINDOW_COLUMNS)])
    return stream.each(lambda flow: assigned(flow, window), schema)
