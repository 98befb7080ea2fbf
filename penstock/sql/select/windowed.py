"""Windows without aggregates: rows with the windows they belong to, and windows on the inputs of a join, as in `FROM a
[RANGE 3 MINUTES], b [RANGE 2 MINUTES]` or `FROM a [ROWS 10], b [ROWS 10]`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa

from penstock.errors import QueryError
from penstock.expr.tree import Column, Expr, Named
from penstock.operators.window.kinds import RowWindow, Session
from penstock.operators.window.windows import Window
from penstock.plan.logical import AssignWindows, Node, Project
from penstock.plan.schema import WINDOW_COLUMNS, columns_of_node, time_type
from penstock.sql.joins.time_bounds import within
from penstock.sql.joins.tree import Leaf, Tree, leaves_of
from penstock.sql.streams.stream import FromStream, whole
from penstock.types import unique_name

_EACH = "write a window on each of them, as in FROM a [RANGE 3 MINUTES], b [RANGE 2 MINUTES]"
_BEHIND = "write the window of an aggregate over a join after the select list"


def join_input(stream: FromStream) -> FromStream:
    """Return the stream as an input of a join: TUMBLE and HOP add window_start and window_end to its rows."""
    stream = whole(stream)
    match stream.window:
        case Session():
            raise QueryError("a session window cannot be joined", hint="aggregate it in a subquery in FROM")
        case Window() | RowWindow() if stream.implied and stream.window.slide != stream.window.size:
            raise QueryError("the window of an input of a join has no SLIDE", hint=f"leave it out; {_BEHIND}")
        case Window() if not stream.implied:
            return replace(stream, node=windowed(stream.node, stream.window), window=None)
    return stream


def window_conjuncts(left: Tree, right: Tree) -> Iterator[Expr]:
    """Yield the conditions on the times of both sides that follow from the windows of their streams."""
    for one in leaves_of(left):
        for other in leaves_of(right):
            windows = one.stream.window, other.stream.window
            match windows:
                case Window() as first, Window() as second:
                    times = _time(one, first), _time(other, second)
                    yield from within(*times, (first.size, second.size), _has_timestamps(one))
                case (None, None) | (RowWindow(), RowWindow()):
                    pass
                case _:
                    raise QueryError("the inputs of a join have different kinds of windows", hint=f"{_EACH}; {_BEHIND}")


def _time(leaf: Leaf, window: Window) -> str:
    return dict(leaf.unit.own_to_row)[window.time]


def _has_timestamps(leaf: Leaf) -> bool:
    return bool(pa.types.is_timestamp(time_type(leaf.stream.node)))


def last_rows(kind: str, left: Tree, right: Tree) -> tuple[int, int] | None:
    """Return the sizes of the row windows of two streams; None if there are none."""
    windows = [leaf.stream.window for side in (left, right) for leaf in leaves_of(side)]
    sizes = [window.size for window in windows if isinstance(window, RowWindow)]
    if not sizes:
        return None
    if len(windows) != 2 or kind != "inner":
        raise QueryError(
            "a join over the last rows is an inner join of two streams", hint="join two at a time, with JOIN or a comma"
        )
    return sizes[0], sizes[1]


def windowed(node: Node, window: Window) -> AssignWindows:
    """Assign rows to windows. Columns named window_start or window_end get the prefix `input_`."""
    columns = columns_of_node(node)
    clashing = [name for name in columns if name.lower() in WINDOW_COLUMNS]
    if not clashing:
        return AssignWindows(node, window)
    names = {name: unique_name(f"input_{name}", columns) for name in clashing}
    renamed = Project(node, tuple(Named(names.get(name, name), Column(name)) for name in columns))
    return AssignWindows(renamed, replace(window, time=names.get(window.time, window.time)))
