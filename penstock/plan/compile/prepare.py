"""From a stateful node to its operator: which columns its ports are given, and which punctuation it follows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from penstock.errors import QueryError
from penstock.expr.evaluate.scalar import result_schema
from penstock.expr.tree import Named
from penstock.operators.protocol import Operator
from penstock.operators.window.lateness import BorderCloses, Closing, RowCloses
from penstock.plan.compile.flow import Flow, Joint, Stream
from penstock.plan.program import BY_NUMBER, Compute, Following

NO_TIME = "the time of the stream is needed here, and it is not there any more"


@dataclass(frozen=True)
class Tracks:
    """The tracks of an operator that a port feeds, from the number `first` on; `of` says how they follow a flow."""

    first: int
    of: Callable[[Flow], tuple[Following, ...]]


FOLLOWING_NUMBERS = Tracks(0, lambda flow: (Following(BY_NUMBER),))


@dataclass(frozen=True)
class Prepared:
    """A subquery to be. Invariant: one stream, with just the columns the operator is given, one Tracks and one closing
    per port: when a row is late for it, given how its first track follows a flow.

    `numbers` names the state column, if there is one, that holds the numbers of rows. `joint`: the joint progress of
    the result.
    """

    operator: Operator
    streams: tuple[Stream, ...]
    tracks: tuple[Tracks, ...]
    closings: tuple[Callable[[Following], Closing], ...]
    numbers: str | None = None
    joint: Joint | None = None


def computed(stream: Stream, columns: Sequence[Named]) -> Stream:
    """The stream with just these columns, as an operator is given them; its times are told by tracks, not by name."""
    schema = result_schema(stream.schema, columns)
    return stream.each(lambda flow: flow.then(Compute(tuple(columns))), schema)


def following(stream: Stream, *times: str, first: int = 0) -> Tracks:
    """Tracks that follow progressing attributes of a stream, each by itself."""
    for time in times:
        require_time(stream, time)
    return Tracks(first, lambda flow: tuple(flow.times[time] for time in times))


def following_the_end() -> Tracks:
    """A track that tells when the stream has ended."""
    return Tracks(0, lambda flow: (flow.end,))


def closing_by(time: str) -> Callable[[Following], Closing]:
    """Rows are late below the mark on the column `time`: as a whole, or for the window whose border it is."""

    def of(following: Following) -> Closing:
        if not following.borders:
            return RowCloses()
        border = following.borders[-1]
        return BorderCloses(time, border.window.size, border.end)

    return of


def closing_as(closing: Closing) -> Callable[[Following], Closing]:
    """Rows are late by the windows of the operator itself."""
    return lambda following: closing


def following_jointly(stream: Stream, times: Sequence[str]) -> Tracks | None:
    """Tracks that follow the joint punctuation of a join on all of its times; None where there is none on these."""
    if not all(flow.joint is not None and set(flow.joint.names) == set(times) for flow in stream.flows):
        return None

    def of(flow: Flow) -> tuple[Following, ...]:
        assert flow.joint is not None
        return tuple(flow.joint.followings[flow.joint.names.index(time)] for time in times)

    return Tracks(0, of)


def require_time(stream: Stream, time: str) -> None:
    """An error unless `time` is a progressing attribute in every flow."""
    if not all(time in flow.times for flow in stream.flows):
        raise QueryError(
            f"`{time}` is not a progressing attribute of this stream",
            detail=_what_progresses(stream),
            hint="use a time that punctuation is known for, and pass it through every select unchanged",
        )


def _what_progresses(stream: Stream) -> str:
    known = [name for name in stream.schema.names if all(name in flow.times for flow in stream.flows)]
    return f"progressing here: {', '.join(f'`{name}`' for name in known)}" if known else NO_TIME
