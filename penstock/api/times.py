"""Choose among the progressing attributes of a stream: the default one, or the one a user names."""

from __future__ import annotations

from enum import Enum

import pyarrow as pa

from penstock.errors import QueryError, did_you_mean
from penstock.plan.logical import Node
from penstock.plan.lost_time import why_no_time
from penstock.plan.schema import WINDOW_COLUMNS, WINDOW_START, time_column, time_type, times_of


class Usual(Enum):
    """Default value of a parameter for which None has a meaning."""

    TIME = "the usual time"


def chosen_time(node: Node, name: str | None, what: str) -> str:
    """Return the progressing attribute to use: `name`, or the default one. `what` names the operation in messages."""
    known = times_of(node)
    if not known:
        detail, hint = why_no_time(node)
        raise QueryError(f"{what} needs the time of the stream, and it has none here", detail=detail, hint=hint)
    if name is not None and name not in known:
        raise QueryError(
            f"{what} cannot go by `{name}`: it is not a progressing attribute of the stream",
            detail=f"progressing here: {', '.join(f'`{time}`' for time in known)}",
            hint=did_you_mean(name, known),
        )
    return known[0] if name is None else name


def window_time(node: Node, name: str | None) -> tuple[str, pa.DataType]:
    """Return the time column of a window, and its type."""
    return chosen_time(node, name, "a window"), time_type(node)


def chosen_period(node: Node, per: str | Usual | None, what: str) -> str | None:
    """Return the time column within whose values rows are compared: by default `window_start` if the stream has
    windows, else its default time; None for all rows."""
    if per is None:
        return None
    if isinstance(per, Usual):
        return WINDOW_START if WINDOW_START in times_of(node) else chosen_time(node, None, what)
    return chosen_time(node, per, what)


def window_of(node: Node, per: str | Usual | None, what: str) -> str | None:
    """Return the same as `chosen_period`, but require windows by default: each row has its own time, so only windows or
    all rows make sense."""
    if isinstance(per, Usual) and WINDOW_START not in times_of(node):
        raise QueryError(
            f"{what} needs windows, or per=None",
            detail="the stream has no windows",
            hint='put .windowed(ps.tumbling("1m")) before it; per=None means all rows, output when the stream ends',
        )
    return chosen_period(node, per, what)


def event_time(node: Node, what: str) -> str:
    """Return the time column of the rows themselves, not that of their windows."""
    known = [time for time in times_of(node) if time not in WINDOW_COLUMNS]
    if not known:
        raise QueryError(
            f"{what} needs the time of each row",
            detail="rows of one window have the same times here",
            hint="use .top(1, by=...) to say which row is the first",
        )
    return known[0]


def time_kept(node: Node, columns: list[str]) -> str | None:
    """Return the default time column if it is among `columns`, else None."""
    time = time_column(node)
    return time if time in columns else None
