"""The text of operators: one line with the kind, followed by lines with details."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType

import pyarrow as pa

from penstock.expr.text import text
from penstock.operators.band_join.join import BandJoin
from penstock.operators.bands import Band
from penstock.operators.distinct import DistinctRows
from penstock.operators.equal_times import EqualTimesAggregate
from penstock.operators.protocol import Operator
from penstock.operators.reorder import Reorder
from penstock.operators.session.session import SessionAggregate
from penstock.operators.theta_join.join import GridJoin
from penstock.operators.theta_join.last_rows import LastRowsJoin
from penstock.operators.top import OrderColumn, TopRows
from penstock.operators.window.aggregate import Measure, WindowAggregate
from penstock.operators.window.windows import Window
from penstock.units import span_text

Shown = Mapping[tuple[int, str], str]  # the text of the expression of a column, by port and column name
_FOREVER = 1 << 62  # spans from here on are unbounded


def operator_lines(operator: Operator, shown: Shown = MappingProxyType({})) -> Iterator[str]:
    """Yield the kind of an operator, its details, and what it keeps as state."""
    yield from _own_lines(operator, shown)
    yield from kept_lines(operator)


def _own_lines(operator: Operator, shown: Shown) -> Iterator[str]:
    match operator:
        case WindowAggregate(window=window):
            is_timestamp = _is_timestamp(operator.input_schema, window.time)
            yield f"aggregate by {_names(operator.keys)}, {window_text(window, is_timestamp)}"
            yield from _measures(operator.measures)
        case SessionAggregate(window=window):
            gap = span_text(window.gap, _is_timestamp(operator.input_schema, window.time))
            yield f"aggregate by {_names(operator.keys)}, sessions with a gap of {gap}"
            yield from _measures(operator.measures)
        case EqualTimesAggregate():
            yield f"aggregate by {_names((*operator.times, *operator.keys))}, closed by the times themselves"
            yield from _measures(operator.measures)
        case DistinctRows():
            yield f"distinct rows, forgotten by {operator.time}"
        case TopRows():
            yield f"first {operator.n} rows by {_names(_named(operator.keys, shown))}{_per(operator.time)}"
            yield f"ordered by {', '.join(_ordered(column, shown) for column in operator.order)}"
        case Reorder():
            yield f"rows in order of {operator.time}" + (f", for each {_names(operator.keys)}" if operator.keys else "")
        case BandJoin() | GridJoin() | LastRowsJoin():
            yield from _join_lines(operator, shown)
        case _:
            yield type(operator).__name__


def before_travelling(operator: Operator) -> Iterator[str]:
    """Yield what is done with rows before they are sent to an operator."""
    match operator:
        case WindowAggregate():
            yield "pre-aggregate by key and pane"
        case SessionAggregate():
            yield "pre-aggregate by key and session"
        case EqualTimesAggregate():
            yield "pre-aggregate by key and time"
        case DistinctRows():
            yield "keep one of equal rows"
        case TopRows():
            yield f"keep the first {operator.n} rows of each group"


def _join_lines(operator: BandJoin | GridJoin | LastRowsJoin, shown: Shown) -> Iterator[str]:
    match operator:
        case BandJoin():
            keys = " = ".join(f"({', '.join(_named(k, shown, port))})" for port, k in enumerate(operator.keys))
            yield f"{operator.kind} join of {len(operator.schemas)} inputs on {keys}"
        case GridJoin():
            yield f"theta join over {_cells(operator)}"
        case LastRowsJoin():
            yield f"theta join over the last {operator.last_rows[0]} and {operator.last_rows[1]} rows"
            yield f"spread over {_cells(operator)}"
    if not isinstance(operator, LastRowsJoin):
        is_timestamp = _is_timestamp(operator.schemas[0], operator.times[0])
        yield from (_band(band, operator.times, is_timestamp) for band in operator.bands)
    if operator.condition is not None:
        yield f"where {text(operator.condition)}"


def _band(band: Band, times: tuple[str, ...], is_timestamp: bool) -> str:
    """Return the condition of a band on two times."""
    left, right = times[band.left], times[band.right]
    if band.before == band.after == 0:
        return f"{left} = {right}"
    least = "" if band.before is None else f"{_moved(left, -band.before, is_timestamp)} <= "
    greatest = "" if band.after is None else f" <= {_moved(left, band.after, is_timestamp)}"
    return f"{least}{right}{greatest}" if least or greatest else f"{right} at any time"


def _moved(time: str, by: int, is_timestamp: bool) -> str:
    return f"{time} {'-' if by < 0 else '+'} {span_text(abs(by), is_timestamp)}" if by else time


def _measures(measures: Iterable[Measure]) -> Iterator[str]:
    return (f"{measure.name} = {measure.function}({measure.shown})" for measure in measures)


def window_text(window: Window, is_timestamp: bool) -> str:
    size, slide, pane = (span_text(s, is_timestamp) for s in (window.size, window.slide, window.pane))
    kind = f"tumbling {size}" if window.size == window.slide else f"sliding {size} every {slide}, panes of {pane}"
    return kind + (f", offset {span_text(window.offset, is_timestamp)}" if window.offset else "")


def _is_timestamp(schema: pa.Schema, time: str) -> bool:
    return bool(pa.types.is_timestamp(schema.field(time).type))


def _names(names: Iterable[str]) -> str:
    return ", ".join(names) or "nothing"


def _named(names: Iterable[str], shown: Shown, port: int = 0) -> list[str]:
    return [shown.get((port, name), name.removeprefix("#")) for name in names]


def _ordered(column: OrderColumn, shown: Shown) -> str:
    """Return a sort key as in ORDER BY; ascending and nulls last are not written."""
    nulls = " nulls first" if column.nulls_first else ""
    return f"{_named([column.column], shown)[0]}{' desc' if column.descending else ''}{nulls}"


def _cells(operator: GridJoin | LastRowsJoin) -> str:
    if operator.follows_sites:
        return "a grid with a cell for each site"
    return f"a grid of {operator.grid[0]} x {operator.grid[1]} cells"


def _per(time: str | None) -> str:
    return f" and {time}" if time is not None else ", at the end of the stream"


def kept_lines(operator: Operator) -> Iterator[str]:
    """Yield what an operator keeps as state, and for how long."""
    match operator:
        case WindowAggregate(window=window, input_schema=schema):
            yield f"keep a partial for each key and pane, at most {_span(window.size, schema, window.time)}"
        case SessionAggregate(window=window, input_schema=schema):
            yield f"keep fragments of sessions until {_span(window.gap, schema, window.time)} after their last row"
        case EqualTimesAggregate():
            yield "keep a partial for each group until its time has passed"
        case DistinctRows():
            yield "keep each different row until its time has passed"
        case TopRows(n=n, time=time):
            until = "the stream has ended" if time is None else f"{time} has passed"
            yield f"keep at most {n} rows of each group until {until}"
        case Reorder():
            yield "keep rows until their time has passed"
        case BandJoin() | GridJoin():
            yield from (_kept_of_input(operator, port) for port in range(operator.ports))
        case LastRowsJoin(last_rows=last_rows):
            yield f"keep the last {last_rows[0]} and {last_rows[1]} rows, and those that wait for both inputs"


def _kept_of_input(operator: BandJoin | GridJoin, port: int) -> str:
    span = operator.span(port)
    if span <= 1:
        return f"keep rows of input {port} until their time has passed"
    if span >= _FOREVER:
        return f"keep rows of input {port} until the other input has ended"
    return f"keep rows of input {port} for {_span(span, operator.schemas[port], operator.times[port])}"


def _span(span: int, schema: pa.Schema, time: str) -> str:
    return span_text(span, bool(pa.types.is_timestamp(schema.field(time).type)))
