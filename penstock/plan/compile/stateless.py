"""Stateless nodes that do more than compute columns: functions over batches, unions, window assignment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa

from penstock.errors import QueryError
from penstock.expr.tree import Column, Named
from penstock.operators.window.windows import Window
from penstock.plan.compile.flow import CompiledStream, Flow, assigned, projected
from penstock.plan.compile.prepare import require_time
from penstock.plan.logical import MapBatches
from penstock.plan.program import MapBatchesStep
from penstock.plan.schema import WINDOW_COLUMNS
from penstock.plan.window_bounds import check_assigned
from penstock.type_names import sql_type
from penstock.types import is_time_type


def mapped(node: MapBatches, stream: CompiledStream) -> CompiledStream:
    """Return a stream after a Python function. The first of its times is kept, if the node names the column that holds
    it."""
    if node.time is None:
        return stream.each(lambda flow: _behind(flow, node, None), node.schema)
    before = next((name for name in stream.flows[0].times if all(name in f.times for f in stream.flows)), None)
    if before is None or node.time not in node.schema.names:
        raise QueryError(
            f"`{node.time}` cannot be the time after the function `{node.function.name}`",
            detail="it is not a column of its result" if before else "the stream no longer has a time",
            hint="name a column of the result that keeps the time of the stream, or give time=None",
        )
    return stream.each(lambda flow: _behind(flow, node, before), node.schema)


def _behind(flow: Flow, node: MapBatches, before: str | None) -> Flow:
    """Return a flow after the function; `before` is the time that the function keeps, None if it keeps none."""
    if before is None or node.time is None:
        return replace(flow.then(MapBatchesStep(node.function, node.schema, None)), times={}, joint=None)
    step = MapBatchesStep(node.function, node.schema, (before, node.time))
    return replace(flow.then(step), times={node.time: flow.times[before]}, joint=None)


def united(streams: Sequence[CompiledStream]) -> CompiledStream:
    """Return all flows of all streams, with the columns of the first. Raises QueryError if the column types differ."""
    first = streams[0].schema
    for n, stream in enumerate(streams[1:], 2):
        _check_same_types(first, stream.schema, n)
    return CompiledStream(tuple(_renamed(flow, s.schema, first) for s in streams for flow in s.flows), first)


def _renamed(flow: Flow, before: pa.Schema, after: pa.Schema) -> Flow:
    """Return the flow with the column names of `after`, by position."""
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


def windowed(stream: CompiledStream, window: Window) -> CompiledStream:
    """Return the stream with each row once per window that contains it."""
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
