"""Preparation of stateful nodes: the columns that the ports of the operator get, and the punctuation that its tracks
follow."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from penstock.expr.evaluate.scalar import result_schema
from penstock.expr.tree import Named
from penstock.operators.protocol import Operator
from penstock.operators.window.lateness import BorderCloses, ClosingRule, RowCloses
from penstock.plan.compile.flow import CompiledStream, Flow, Joint, require_time
from penstock.plan.program import BY_NUMBER, Following, ProjectStep


@dataclass(frozen=True)
class Tracks:
    """The tracks of an operator that a port feeds, numbered from `first`; `of` returns how they follow a flow."""

    first: int
    of: Callable[[Flow], tuple[Following, ...]]


FOLLOWING_NUMBERS = Tracks(0, lambda flow: (Following(BY_NUMBER),))


@dataclass(frozen=True)
class Prepared:
    """A subquery that is about to be added. Invariant: per port one stream (with exactly the columns that the operator
    gets), one Tracks, and one closing. A closing is a function that returns when rows are late for the port, given how
    its first track follows a flow.

    `numbers` names the state column with the numbers of rows, if there is one. `joint` is the joint progress of the
    result.
    """

    operator: Operator
    streams: tuple[CompiledStream, ...]
    tracks: tuple[Tracks, ...]
    closings: tuple[Callable[[Following], ClosingRule], ...]
    numbers: str | None = None
    joint: Joint | None = None


def computed(stream: CompiledStream, columns: Sequence[Named]) -> CompiledStream:
    """Return the stream with exactly these columns, as an operator gets them. Its times are passed by tracks, not by
    name."""
    schema = result_schema(stream.schema, columns)
    return stream.each(lambda flow: flow.then(ProjectStep(tuple(columns))), schema)


def following(stream: CompiledStream, *times: str, first: int = 0) -> Tracks:
    """Return tracks that follow progressing attributes of a stream separately. Raises QueryError if one of `times` is
    not a progressing attribute."""
    for time in times:
        require_time(stream, time)
    return Tracks(first, lambda flow: tuple(flow.times[time] for time in times))


def following_the_end() -> Tracks:
    """Return a track that shows when the stream has ended."""
    return Tracks(0, lambda flow: (flow.end,))


def closing_by(time: str) -> Callable[[Following], ClosingRule]:
    """Return the closing of rows that are late below the mark on the column `time`: as a whole or, if the column is a
    window bound, for that window."""

    def of(following: Following) -> ClosingRule:
        if not following.borders:
            return RowCloses()
        border = following.borders[-1]
        return BorderCloses(time, border.window.size, border.end)

    return of


def closing_as(closing: ClosingRule) -> Callable[[Following], ClosingRule]:
    """Return the closing given by the windows of the operator itself."""
    return lambda following: closing


def following_jointly(stream: CompiledStream, times: Sequence[str]) -> Tracks | None:
    """Return tracks that follow the joint punctuation of a join on all of `times`; None if there is none on exactly
    these."""
    if not all(flow.joint is not None and set(flow.joint.names) == set(times) for flow in stream.flows):
        return None

    def of(flow: Flow) -> tuple[Following, ...]:
        assert flow.joint is not None
        return tuple(flow.joint.followings[flow.joint.names.index(time)] for time in times)

    return Tracks(0, of)
