"""Streams during compilation: a stream consists of flows, each from one producer through stateless steps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import pyarrow as pa

from penstock.expr.tree import Column, Named
from penstock.expr.walk import columns_of, substitute
from penstock.operators.bands import Leads
from penstock.operators.protocol import Operator
from penstock.operators.window.windows import Window
from penstock.plan.program import AssignWindowsStep, Following, MapBatchesStep, ProjectStep, Step, WindowBorder
from penstock.plan.schema import WINDOW_END, WINDOW_START
from penstock.plan.size import is_too_deep


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
