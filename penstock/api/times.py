"""Choosing among the progressing attributes of a stream: the usual one, or the one a user names."""

from __future__ import annotations

from enum import Enum

import pyarrow as pa

from penstock.errors import QueryError, did_you_mean
from penstock.plan.logical import Node
from penstock.plan.lost_time import why_no_time
from penstock.plan.schema import WINDOW_COLUMNS, WINDOW_START, time_column, time_type, times_of


class Usual(Enum):
    """What an argument is when the user says nothing, where None means something."""

    TIME = "the usual time"


def chosen_time(node: Node, name: str | None, what: str) -> str:
    """The progressing attribute that `what` goes by: the one named, or the usual one."""
    known = times_of(node)
    if not known:
        detail, hint = why_no_time(node)
        raise QueryError(f"{what} needs the time of the stream, and there is none any more", detail=detail, hint=hint)
    if name is not None and name not in known:
        raise QueryError(
            f"{what} cannot go by `{name}`: it is not a progressing attribute of the stream",
            detail=f"progressing here: {', '.join(f'`{time}`' for time in known)}",
            hint=did_you_mean(name, known),
        )
    return known[0] if name is None else name


def window_time(node: Node, name: str | None) -> tuple[str, pa.DataType]:
    """The time that a window goes by, and its type."""
    return chosen_time(node, name, "a window"), time_type(node)


def chosen_period(node: Node, per: str | Usual | None, what: str) -> str | None:
    """The time within which rows are compared: `window_start` where there are windows, else the usual time."""
    if per is None:
        return None
    if isinstance(per, Usual):
        return WINDOW_START if WINDOW_START in times_of(node) else chosen_time(node, None, what)
    return chosen_time(node, per, what)


def window_of(node: Node, per: str | Usual | None, what: str) -> str | None:
    """The same where each row has a time of its own, so that only windows, or all rows, make sense by default."""
    if isinstance(per, Usual) and WINDOW_START not in times_of(node):
        raise QueryError(
            f"{what} needs to know among which rows",
            detail="the stream has no windows",
            hint='put .windowed(ps.tumbling("1m")) before it; per=None means all rows, known when the stream has ended',
        )
    return chosen_period(node, per, what)


def event_time(node: Node, what: str) -> str:
    """The time of the rows themselves, not of the windows they are in."""
    known = [time for time in times_of(node) if time not in WINDOW_COLUMNS]
    if not known:
        raise QueryError(
            f"{what} needs the time of each row",
            detail="rows of one window have the same times here",
            hint="use .top(1, by=...) to say which row is the first",
        )
    return known[0]


def time_kept(node: Node, columns: list[str]) -> str | None:
    """The usual time, if it is among these columns."""
    time = time_column(node)
    return time if time in columns else None
