"""Late rows in batch: which windows missed a row, as conditions over helper columns that travel with the rows.

The column MARK of a source table is the punctuation that each row came behind. From there, rows carry their source,
their place in it, whether they are behind their mark, and for each of their times the mark on it and, if that time is
the border of a window, that window. The output of an operator carries none of these columns: it is never late.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from penstock.expr.text import quoted
from penstock.expr.tree import Column
from penstock.operators.window.kinds import EqualTimes, RowWindow, Session
from penstock.operators.window.windows import Window
from penstock.plan.logical import (
    Aggregate,
    AssignWindows,
    Distinct,
    Filter,
    InOrder,
    Join,
    MapBatches,
    Node,
    Project,
    Source,
    SplitRows,
    TopN,
    Union,
    inputs_of,
)
from penstock.plan.schema import WINDOW_END, WINDOW_START, columns_of_node
from penstock.testing.oracle.relation import MARK, Relation, exploded

SOURCE, PLACE_IN_SOURCE, BEHIND = "#source", "#place in it", "#behind"
_OF_TIME = ("mark", "first", "last")  # per time: the mark on it, and the borders of the window that it bounds


def _helper(what: str, time: str) -> str:
    return f"#{what} of {time}"


def mark_of(below: Relation, time: str) -> str | None:
    """Return SQL for the mark on a time; None if rows are never late."""
    name = _helper("mark", time)
    return quoted(name) if name in below.types else None


def of_source(source: Source, given: str, row: str) -> str:
    """Return SQL for the rows of a source with their helper columns."""
    is_timestamp = str(source.schema.field(source.time).type).startswith("timestamp")
    time = f"epoch_us({quoted(source.time)})" if is_timestamp else quoted(source.time)
    name = source.name.replace("'", "''")
    helpers = {SOURCE: f"'{name}'", PLACE_IN_SOURCE: quoted(row), BEHIND: f"coalesce({time} < {quoted(MARK)}, false)"}
    helpers |= dict(zip(_names(source.time), (quoted(MARK), *["CAST(NULL AS BIGINT)"] * 2), strict=True))
    return f"SELECT * EXCLUDE ({quoted(MARK)}), {_as(helpers)} FROM ({given})"


def _names(time: str) -> list[str]:
    return [_helper(what, time) for what in _OF_TIME]


def _as(columns: Mapping[str, str]) -> str:
    return ", ".join(f"{value} AS {quoted(name)}" for name, value in columns.items())


def projected(node: Project, below: Relation) -> dict[str, str]:
    """Return the helper columns after a projection: those of times that it keeps, under their new names."""
    kept = {name: quoted(name) for name in (SOURCE, PLACE_IN_SOURCE, BEHIND) if name in below.types}
    for named in node.columns:
        if isinstance(named.expression, Column) and mark_of(below, named.expression.name) is not None:
            kept |= {
                new: quoted(old) for new, old in zip(_names(named.name), _names(named.expression.name), strict=True)
            }
    return kept


def assigned(window: Window, below: Relation) -> dict[str, str]:
    """Return the helper columns after the assignment of windows, over rows with their `#start`."""
    kept = {name: quoted(name) for name in below.helpers if name != "#row"}
    if (mark := mark_of(below, window.time)) is None:
        return kept
    before = f"({mark} - {window.size} - {window.offset})"
    into = f"(({before} % {window.slide} + {window.slide}) % {window.slide})"
    # The start of the first window that ends above the mark.
    opened = f"({before} - {into} + {window.slide} + {window.offset})"
    first, last = '"#start"', f'"#start" + {window.size}'
    kept |= dict(zip(_names(WINDOW_START), (opened, first, last), strict=True))
    return kept | dict(zip(_names(WINDOW_END), (f"{opened} + {window.size}", first, last), strict=True))


def united(parts: Sequence[Relation]) -> list[dict[str, str]]:
    """Return the helper columns of each part of a union, with the names of the first part; null if a part has none."""
    columns = parts[0].columns
    wanted: dict[str, str] = {SOURCE: "VARCHAR", PLACE_IN_SOURCE: "BIGINT", BEHIND: "BOOLEAN"}
    for place, column in enumerate(columns):
        if any(mark_of(part, part.columns[place]) is not None for part in parts):
            wanted |= dict.fromkeys(_names(column), "BIGINT")
    return [_of_part(part, columns, wanted) for part in parts] if any(p.helpers for p in parts) else [{} for _ in parts]


def _of_part(part: Relation, columns: Sequence[str], wanted: Mapping[str, str]) -> dict[str, str]:
    own = {
        new: old
        for column, theirs in zip(columns, part.columns, strict=True)
        for new, old in zip(_names(column), _names(theirs), strict=True)
    }
    sql = {name: own.get(name, name) for name in wanted}
    return {n: quoted(sql[n]) if sql[n] in part.types else f"CAST(NULL AS {t})" for n, t in wanted.items()}


def time_of(node: Node, port: int) -> str | None:
    """Return the time by which an operator judges the lateness of an input's rows; None if it never does."""
    match node:
        case Aggregate(window=RowWindow()):
            return None
        case Aggregate(window=EqualTimes(times)):
            return times[0]
        case Aggregate(window=Window(time=time) | Session(time=time)):
            return time
        case Distinct(time=time) | TopN(time=time) | InOrder(time=time):
            return time
        case Join(times=times):
            return times[port]
    return None


def in_time(node: Node, port: int, below: Relation) -> str:
    """Return SQL for the rows of an input that an operator accepts; with windows, a row may be late for some of them
    only."""
    time = time_of(node, port)
    mark = None if time is None else mark_of(below, time)
    if time is None or mark is None:
        return f"SELECT * FROM {below.name}"
    match node:
        case Aggregate(window=Window()):
            return f"SELECT * FROM {below.name}"
        case Aggregate(window=Session(gap=gap)):
            return f"SELECT * FROM {below.name} WHERE coalesce({below.integer(time)} + {gap} > {mark}, true)"
    return f"SELECT * FROM {below.name} WHERE coalesce({below.integer(time)} >= {mark}, true)"


def missed(node: Node, port: int, below: Relation) -> str | None:
    """Return SQL for the rows of an input that some windows missed: source, place, start of the first such window, end
    of the last; None if no row can be late."""
    time = time_of(node, port)
    mark = None if time is None else mark_of(below, time)
    if time is None or mark is None:
        return None
    at = below.integer(time)
    match node:
        case Aggregate(window=Window(_, size, slide, offset)):
            timed = f'SELECT *, {at} AS "#time" FROM {below.name}'
            rows = exploded(timed, '"#time"', size, slide, offset)
            return _late(rows, f'"#start" + {size} <= {mark}', '"#start"', f'"#start" + {size}')
        case Aggregate(window=Session(gap=gap)):
            return _late(f"SELECT * FROM {below.name}", f"{at} + {gap} <= {mark}", at, f"{at} + {gap}")
    first, last = (quoted(_helper(what, time)) for what in ("first", "last"))
    return _late(f"SELECT * FROM {below.name}", f"{at} < {mark} AND {first} IS NOT NULL", first, last)


def _late(rows: str, condition: str, first: str, last: str) -> str:
    by = f"{quoted(SOURCE)}, {quoted(PLACE_IN_SOURCE)}"
    return f"SELECT {by}, min({first}), max({last}) FROM ({rows}) WHERE {condition} GROUP BY ALL"


def judged_as_rows(node: Node, time: str | None, by_window: bool) -> Iterator[Source]:
    """Yield the sources whose rows are late as a whole for an operator over `node` that judges by `time`. `by_window`:
    the operator has windows. Below a Python function all sources are judged as rows."""
    match node:
        case Source():
            if time == node.time and not by_window:
                yield node
        case Filter(input=below) | SplitRows(input=below):
            yield from judged_as_rows(below, time, by_window)
        case Project(input=below, columns=columns):
            passed = {c.name: c.expression.name for c in columns if isinstance(c.expression, Column)}
            yield from judged_as_rows(below, None if time is None else passed.get(time), by_window)
        case AssignWindows(input=below):
            yield from judged_as_rows(below, None if time in (WINDOW_START, WINDOW_END) else time, by_window)
        case Union(inputs=inputs):
            place = columns_of_node(node).index(time) if time is not None else None
            for part in inputs:
                yield from judged_as_rows(part, None if place is None else columns_of_node(part)[place], by_window)
        case MapBatches(input=below):
            yield from direct_sources(below)


def direct_sources(node: Node) -> Iterator[Source]:
    """Yield the sources whose rows reach `node` without passing a stateful operator."""
    match node:
        case Source():
            yield node
        case Filter() | SplitRows() | Project() | AssignWindows() | MapBatches() | Union():
            for part in inputs_of(node):
                yield from direct_sources(part)
