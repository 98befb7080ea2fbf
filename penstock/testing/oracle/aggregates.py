"""Aggregates in batch: add columns that identify the group of each row, and group by them.

Every row is unnested into each of its windows; sessions are numbered by window functions. `#time` is the integer time
that `first` and `last` compare.
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.expr.text import quoted, text
from penstock.operators.window.kinds import EqualTimes, RowWindow, Session
from penstock.operators.window.windows import Window
from penstock.plan.logical import Aggregate, Aggregation
from penstock.testing.oracle.late import mark_of
from penstock.testing.oracle.relation import ROW, Relation, computed, exploded, listed, of_integer

_FUNCTIONS = {"stddev": "stddev_samp", "variance": "var_samp"}


@dataclass(frozen=True)
class _Grouping:
    """SQL of the rows, the columns that group them besides the keys, and SQL of the result columns that identify the
    group."""

    rows: str
    by: tuple[str, ...]
    shown: dict[str, str]


def aggregate_sql(node: Aggregate, below: Relation) -> str:
    """Return SQL for an aggregate over the relation `below`."""
    keys = tuple(f"#key {key.name}" for key in node.keys)
    keyed = [f"{text(k.expression)} AS {quoted(name)}" for k, name in zip(node.keys, keys, strict=True)]
    grouping = _grouping(node.window, below, ", ".join(["*", *keyed]), keys)
    columns = {k.name: quoted(name) for k, name in zip(node.keys, keys, strict=True)} | grouping.shown
    columns |= {a.name: _measure(a) for a in node.aggregates}
    return computed(columns, f"FROM ({grouping.rows}) GROUP BY {listed((*grouping.by, *keys))}")


def _grouping(
    window: Window | Session | RowWindow | EqualTimes, below: Relation, columns: str, keys: tuple[str, ...]
) -> _Grouping:
    """Return the rows of `below` with the columns that identify their groups."""
    match window:
        case Window(time, size, slide, offset):
            timed = _timed(below, columns, below.integer(time))
            rows = exploded(timed, '"#time"', size, slide, offset)
            if (mark := mark_of(below, time)) is not None:
                rows = f'SELECT * FROM ({rows}) WHERE coalesce("#start" + {size} > {mark}, true)'
            return _windows(rows, size, below.is_timestamp(time))
        case RowWindow(size, slide):
            rows = _timed(below, columns, quoted(ROW))
            return _windows(exploded(rows, '"#time"', size, slide, 0), size, False)
        case Session(time, gap):
            return _sessions(below, columns, keys, time, gap)
        case EqualTimes(times):
            rows = _timed(below, columns, below.integer(times[0]))
            return _Grouping(rows, times, {time: quoted(time) for time in times})


def _timed(below: Relation, columns: str, time: str) -> str:
    return f'SELECT {columns}, {time} AS "#time" FROM {below.name}'


def _windows(rows: str, size: int, is_timestamp: bool) -> _Grouping:
    return _Grouping(rows, ("#start",), _borders('"#start"', f'"#start" + {size}', is_timestamp))


def _borders(start: str, end: str, is_timestamp: bool) -> dict[str, str]:
    return {"window_start": of_integer(start, is_timestamp), "window_end": of_integer(end, is_timestamp)}


def _sessions(below: Relation, columns: str, keys: tuple[str, ...], time: str, gap: int) -> _Grouping:
    """Number the sessions of each key. A row joins a session that ended less than `gap` before the row's time or, for a
    row behind the mark, before the mark: earlier sessions are closed. In order of that bound, a row starts a session if
    no row before it reaches far enough."""
    part = f"PARTITION BY {listed(keys)} " if keys else ""
    mark = mark_of(below, time)
    bound = '"#time"' if mark is None else f'greatest("#time", coalesce({mark}, "#time"))'
    timed = f'SELECT *, {bound} AS "#joins" FROM ({_timed(below, columns, below.integer(time))})'
    ordered = f'SELECT *, row_number() OVER ({part}ORDER BY "#joins", "#time") AS "#nth" FROM ({timed})'
    before = f'({part}ORDER BY "#nth" ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)'
    begins = f'CASE WHEN "#joins" - max("#time") OVER {before} < {gap} THEN 0 ELSE 1 END'
    flagged = f'SELECT *, {begins} AS "#begins" FROM ({ordered})'
    rows = f'SELECT *, sum("#begins") OVER ({part}ORDER BY "#nth") AS "#session" FROM ({flagged})'
    return _Grouping(rows, ("#session",), _borders('min("#time")', f'max("#time") + {gap}', below.is_timestamp(time)))


def _measure(aggregation: Aggregation) -> str:
    """Return SQL for one aggregate."""
    function = aggregation.function
    if aggregation.argument is None:
        return "count(*)"
    argument = text(aggregation.argument)
    match function:
        case "count_distinct":
            return f"count(DISTINCT {argument})"
        case "first" | "last":
            best = "min" if function == "first" else "max"
            return f"({best}({{'t': \"#time\", 'v': {argument}}}) FILTER (WHERE ({argument}) IS NOT NULL)).v"
    return f"{_FUNCTIONS.get(function, function)}({argument})"
