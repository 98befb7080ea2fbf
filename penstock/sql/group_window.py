"""What rows are grouped by besides keys: a window, or the very times."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from penstock.errors import QueryError
from penstock.expr.tree import Column, Expr
from penstock.operators.window.kinds import Moments, RowWindow, Session
from penstock.operators.window.windows import Window
from penstock.plan.logical import Filter, Node, Project, Source
from penstock.plan.lost_time import why_no_time
from penstock.plan.schema import WINDOW_COLUMNS, times_of
from penstock.sql.aggregate_names import has_aggregate
from penstock.sql.group_keys import Keys
from penstock.sql.rows import Rows
from penstock.sql.tree import place_of

_NEEDS_WINDOW = "a continuous aggregate needs a window: without one it would never be complete"
_AS_IN = "as in FROM TUMBLE(calls, ts, INTERVAL '1' MINUTE) ... GROUP BY window_start"


@dataclass(frozen=True)
class Groups:
    """`borders` are the columns that the result has for the window, or for the times."""

    keys: tuple[Expr, ...]
    window: Window | Session | RowWindow | Moments
    borders: tuple[str, ...]


def groups_of(select: exp.Select, rows: Rows, keys: Keys) -> Groups:
    """The groups of a SELECT."""
    if rows.window is None:
        return _moments(select, rows, keys)
    if not (keys.windowed or rows.implied):
        raise _window_not_grouped(select, rows)
    if isinstance(rows.window, RowWindow):
        _check_numbered(select, rows)
    if rows.partition is not None:
        _check_partition(select, rows, keys)
    return Groups(keys.expressions, rows.window, WINDOW_COLUMNS)


def _moments(select: exp.Select, rows: Rows, keys: Keys) -> Groups:
    """Without a window, groups are complete when the times they are grouped by have passed."""
    known = times_of(rows.node)
    times = tuple(key.name for key in keys.expressions if isinstance(key, Column) and key.name in known)
    if not times:
        named = " or ".join(f"`{time}`" for time in known)
        detail, hint = ("", f"or group by {named}") if known else why_no_time(rows.node)
        hint = f"{_AS_IN}; {hint}"
        raise rows.scope.text.error(_NEEDS_WINDOW, _aggregate_place(select), detail=detail, hint=hint)
    return Groups(keys.without(times), Moments(times), times)


def _aggregate_place(select: exp.Select) -> int:
    return place_of(next((e for e in select.expressions if has_aggregate(e)), select))


def _window_not_grouped(select: exp.Select, rows: Rows) -> QueryError:
    return rows.scope.text.error(
        "the window is not in GROUP BY",
        place_of(select.args.get("group") or select),
        detail="an aggregate over all windows together would never be complete",
        hint="add window_start to GROUP BY",
    )


def _check_numbered(select: exp.Select, rows: Rows) -> None:
    node: Node = rows.node
    while isinstance(node, Filter | Project):
        node = node.input
    if not isinstance(node, Source):
        raise rows.scope.text.error(
            "a window of rows is only possible over a source",
            place_of(select.args["from_"]),
            detail="the rows of a join, a union or an aggregate have no numbers that stay the same",
            hint="use a window of time, as in [RANGE 1 MINUTE]",
        )


def _check_partition(select: exp.Select, rows: Rows, keys: Keys) -> None:
    grouped = {key.name for key in keys.expressions if isinstance(key, Column)}
    partition: Sequence[str] = rows.partition or ()
    if grouped != set(partition) or len(grouped) != len(keys.expressions):
        raise rows.scope.text.error(
            "a session is grouped by the columns of its PARTITION BY, and the query by others",
            place_of(select.args.get("group") or select),
            hint="GROUP BY " + ", ".join((*partition, "window_start")) + ", or leave PARTITION BY out",
        )
