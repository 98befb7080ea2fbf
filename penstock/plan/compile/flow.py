"""Streams during compilation: a stream consists of flows, each from one producer through stateless steps; and the
stateless nodes that add more than columns: functions over batches, unions, window assignment."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from penstock.errors import QueryError
from penstock.expr.tree import Column, Named
from penstock.expr.walk import columns_of, substitute
from penstock.operators.bands import Leads
from penstock.operators.protocol import Operator
from penstock.operators.window.windows import Window
from penstock.plan.logical import MapBatches
from penstock.plan.program import AssignWindowsStep, Following, MapBatchesStep, ProjectStep, Step, WindowBorder
from penstock.plan.schema import WINDOW_COLUMNS, WINDOW_END, WINDOW_START
from penstock.plan.size import is_too_deep
from penstock.plan.window_bounds import check_assigned
from penstock.type_names import sql_type
from penstock.types import is_time_type

NO_TIME = "the time of the stream is needed here, but it was dropped before"


@dataclass(frozen=True)
class Joint:
    """The times of a join's result, which joint punctuation bounds together. `leads` are derived from its bands."""

    names: tuple[str, ...]
    followings: tuple[Following, ...]
    leads: Leads


@dataclass(frozen=True)
class Flow:
    """The rows of one producer after some steps. `times` maps each progressing attribute to how it follows the
    producer."""

    is_input: bool
    producer: int
    steps: tuple[Step, ...]
    times: Mapping[str, Following]
    joint: Joint | None = None

    def then(self, step: Step) -> Flow:
        """Return the flow with one more step."""
        return replace(self, steps=followed_by(self.steps, step))

    @property
    def may_be_late(self) -> bool:
        """Return whether its rows can be late window by window: rows of a source that no Python function has
        replaced."""
        return self.is_input and not any(isinstance(step, MapBatchesStep) for step in self.steps)

    @property
    def end(self) -> Following:
        """Return a track that at least shows when the producer has ended."""
        return next(iter(self.times.values()), Following(0))


@dataclass(frozen=True)
class CompiledStream:
    """A stream of the query being compiled. Invariant: at least one flow; all flows have the columns of `schema`. With
    `numbered` the flows carry the number of each row."""

    flows: tuple[Flow, ...]
    schema: pa.Schema
    numbered: bool = field(default=False)

    @property
    def may_be_late(self) -> bool:
        """Return whether rows of some flow can be late window by window."""
        return any(flow.may_be_late for flow in self.flows)

    def each(self, change: Callable[[Flow], Flow], schema: pa.Schema | None = None) -> CompiledStream:
        """Return the stream with every flow changed, and with a new schema if one is given."""
        return replace(self, flows=tuple(map(change, self.flows)), schema=schema or self.schema)


def of_operator(number: int, operator: Operator, joint: Joint | None = None) -> CompiledStream:
    """Return the output stream of a subquery."""
    times = {name: Following(i) for i, name in enumerate(operator.output_times) if name}
    return CompiledStream((Flow(False, number, (), times, joint),), operator.result_schema)


def projected(flow: Flow, columns: tuple[Named, ...]) -> Flow:
    """Return a flow after a projection. A time that is passed on unchanged stays a progressing attribute, under its new
    names."""
    new_names = {time: [n.name for n in columns if n.expression == Column(time)] for time in flow.times}
    times = {name: flow.times[time] for time, names in new_names.items() for name in names}
    return replace(flow.then(ProjectStep(columns)), times=times, joint=_renamed(flow.joint, new_names))


def _renamed(joint: Joint | None, new_names: Mapping[str, list[str]]) -> Joint | None:
    """Return the joint bounds under the new names; None if one of the times is gone."""
    if joint is None or not all(new_names.get(name) for name in joint.names):
        return None
    return replace(joint, names=tuple(new_names[name][0] for name in joint.names))


def assigned(flow: Flow, window: Window) -> Flow:
    """Return a flow after a window assignment. The window bounds are progressing attributes, before the others."""
    behind = flow.times[window.time]
    borders = {
        name: replace(behind, borders=(*behind.borders, WindowBorder(window, end)))
        for name, end in ((WINDOW_START, False), (WINDOW_END, True))
    }
    return replace(flow.then(AssignWindowsStep(window)), times={**borders, **flow.times})


def followed_by(steps: tuple[Step, ...], step: Step) -> tuple[Step, ...]:
    """Return the steps with one more, merging two projections into one where no expression is then computed twice."""
    match (*steps[-1:], step):
        case (ProjectStep(lower), ProjectStep(upper)) if _cheap(lower, upper):
            bindings = {named.name: named.expression for named in lower}
            together = tuple(Named(n.name, substitute(n.expression, bindings)) for n in upper)
            if not any(is_too_deep(named.expression) for named in together):
                return (*steps[:-1], ProjectStep(together))
    return (*steps, step)


def _cheap(lower: tuple[Named, ...], upper: tuple[Named, ...]) -> bool:
    """Return whether merging two projections computes no expression more than once."""
    uses = Counter(name for named in upper for name in columns_of(named.expression))
    return all(isinstance(named.expression, Column) or uses[named.name] <= 1 for named in lower)


def require_time(stream: CompiledStream, time: str) -> None:
    """Raise QueryError unless `time` is a progressing attribute in every flow."""
    if not all(time in flow.times for flow in stream.flows):
        raise QueryError(
            f"`{time}` is not a progressing attribute of this stream",
            detail=_what_progresses(stream),
            hint="use a time that punctuation is known for, and pass it through every select unchanged",
        )


def _what_progresses(stream: CompiledStream) -> str:
    """List the progressing attributes of a stream, for an error message."""
    known = [name for name in stream.schema.names if all(name in flow.times for flow in stream.flows)]
    return f"progressing here: {', '.join(f'`{name}`' for name in known)}" if known else NO_TIME


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
    return CompiledStream(tuple(_with_names(flow, s.schema, first) for s in streams for flow in s.flows), first)


def _with_names(flow: Flow, before: pa.Schema, after: pa.Schema) -> Flow:
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
