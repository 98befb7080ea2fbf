"""Read calls in FROM: TUMBLE(stream, ts, size [, offset]), HOP(stream, ts, slide, size [, offset]), SESSION(stream, ts,
gap), and the calls into which bracket windows and unions are rewritten.

The functions for the time column, the lengths and the gaps of a window also serve windows after a select list.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pyarrow as pa
from sqlglot import exp

from penstock.errors import QueryError, did_you_mean
from penstock.expr.tree import Expr, Literal
from penstock.operators.window.gaps import gap_warning
from penstock.operators.window.kinds import RowWindow, Session
from penstock.operators.window.windows import Window
from penstock.plan.logical import Node
from penstock.plan.lost_time import why_no_time
from penstock.plan.schema import columns_of_node, time_type, times_of
from penstock.sql.names.expression import translate
from penstock.sql.names.scope import Scope, spelled
from penstock.sql.parse.place import ScriptText
from penstock.sql.parse.query_parser import BRACKET, PARTITION, ROWS, UNION
from penstock.sql.parse.refusals import not_a_select
from penstock.sql.parse.tree import dotted_names, extra_parts, place_of, placing, without_parentheses
from penstock.sql.streams.stream import Context, FromStream, find_stream, stream_of_plan, whole
from penstock.sql.streams.union import union_of
from penstock.units import microseconds

_PARAMETERS = {
    "TUMBLE": ("DATA", "TIMECOL", "SIZE", "OFFSET"),
    "HOP": ("DATA", "TIMECOL", "SLIDE", "SIZE", "OFFSET", "GAPS"),
    "SESSION": ("DATA", "TIMECOL", "GAP"),
    BRACKET.upper(): ("DATA", "TIMECOL", "SLIDE", "SIZE", "GAPS"),
    ROWS.upper(): ("DATA", "SLIDE", "SIZE"),
}
_OPTIONAL = ("OFFSET", "GAPS")
_HOW = (
    "write TUMBLE(stream, ts, INTERVAL '1' MINUTE), or HOP(stream, ts, INTERVAL '10' SECOND, INTERVAL '1' MINUTE) "
    "with the slide before the size, or SESSION(stream, ts, INTERVAL '5' MINUTE)"
)

_Arguments = dict[str, exp.Expr]
_AnyWindow = Window | Session | RowWindow
_LONGEST = 2**62
_HOW_GAPS = "HOP takes the slide before the size; add gaps => true (in brackets, GAPS) if this is meant"
_NO_TIME = "the input of the window has no time column"


def window_call(call: exp.Anonymous, context: Context) -> FromStream:
    """Return the stream of a call in FROM, with its window."""
    kind = call.name.upper()
    if call.name == UNION:
        return _union(call, context)
    if kind not in _PARAMETERS:
        hint = did_you_mean(kind, ["TUMBLE", "HOP", "SESSION"])
        raise context.text.error(f"unknown window `{call.name}`", place_of(call), hint=hint)
    with placing(call, context.text):
        arguments = _arguments(call, _PARAMETERS[kind])
        stream = _argument(arguments["DATA"], context)
        window = _WINDOWS[kind](arguments, stream, context)
        implied = kind in (BRACKET.upper(), ROWS.upper())
        return replace(stream, window=window, implied=implied, partition=_partition(call, stream))


def _union(call: exp.Anonymous, context: Context) -> FromStream:
    with placing(call, context.text):
        return FromStream(union_of([_argument(part, context).node for part in call.expressions]), "")


def _argument(node: exp.Expr, context: Context) -> FromStream:
    """Return the stream of the first argument of a window: a source, a view, a subquery or a union."""
    match without_parentheses(node):
        case (exp.Column() | exp.Table()) as named if isinstance(named.this, exp.Identifier):
            if not any(extra_parts(named, ("this",))):
                return whole(find_stream(named.name, place_of(named), context))
        case exp.Subquery(this=exp.Table() as table):
            return _argument(table, context)
        case exp.Subquery() | exp.Query() as query:
            return whole(stream_of_plan(context.plan(query, context), ""))
        case exp.Table(this=exp.Anonymous() as call) if call.name == UNION:
            return _union(call, context)
    raise not_a_select(node, context.text)


def _arguments(call: exp.Anonymous, parameters: tuple[str, ...]) -> _Arguments:
    """Return the arguments by parameter; they may be named, as in Flink's `SIZE => INTERVAL '1' MINUTE`."""
    arguments: _Arguments = {}
    written = [argument for argument in call.expressions if not _is_partition(argument)]
    for parameter, argument in zip(parameters, written, strict=False):
        if isinstance(argument, exp.Kwarg) or _is_gaps(argument):
            arguments[argument.this.name.upper()] = argument.expression
        else:
            arguments[parameter] = argument
    missing = [p for p in parameters if p not in arguments and p not in _OPTIONAL]
    if missing or set(arguments) - set(parameters) or len(written) > len(parameters):
        raise QueryError(f"{call.name} has the wrong arguments", hint=_HOW)
    return arguments


def _is_gaps(node: exp.Expr) -> bool:
    """Return whether the argument is written as `gaps = true`."""
    return isinstance(node, exp.EQ) and isinstance(node.this, exp.Column) and node.this.name.upper() == "GAPS"


def _window(arguments: _Arguments, stream: FromStream, context: Context) -> Window:
    time = _time_of(arguments["TIMECOL"], stream)
    size = span_of(arguments["SIZE"], stream.node, context.text)
    slide = span_of(arguments["SLIDE"], stream.node, context.text) if "SLIDE" in arguments else size
    offset = span_of(arguments["OFFSET"], stream.node, context.text) if "OFFSET" in arguments else 0
    window = Window(time, size, slide, offset)
    if "SLIDE" in arguments and not may_have_gaps(arguments.get("GAPS")):
        warn_of_gaps(window, (arguments["SIZE"], arguments["SLIDE"]), context.text)
    return window


def _session(arguments: _Arguments, stream: FromStream, context: Context) -> Session:
    return Session(_time_of(arguments["TIMECOL"], stream), span_of(arguments["GAP"], stream.node, context.text))


def _rows(arguments: _Arguments, stream: FromStream, context: Context) -> RowWindow:
    return RowWindow(row_count(arguments["SIZE"], context.text), row_count(arguments["SLIDE"], context.text))


_WINDOWS: dict[str, Callable[[_Arguments, FromStream, Context], _AnyWindow]] = {
    "TUMBLE": _window,
    "HOP": _window,
    "SESSION": _session,
    BRACKET.upper(): _window,
    ROWS.upper(): _rows,
}


def _is_partition(node: exp.Expr) -> bool:
    return isinstance(node, exp.Anonymous) and node.name == PARTITION


def _partition(call: exp.Anonymous, stream: FromStream) -> tuple[str, ...] | None:
    """Return the columns of PARTITION BY after the stream, None if there is none; only sessions can have one."""
    clause = next(filter(_is_partition, call.expressions), None)
    if clause is None:
        return None
    if call.name.upper() != "SESSION":
        raise QueryError(f"{call.name} takes no PARTITION BY", hint="name the columns in GROUP BY")
    return tuple(_partition_column(node, stream) for node in clause.expressions)


def _partition_column(node: exp.Expr, stream: FromStream) -> str:
    written = without_parentheses(node)
    known = columns_of_node(stream.node)
    if not isinstance(written, exp.Column) or (found := spelled(written.name, known)) is None:
        raise QueryError("PARTITION BY takes columns of the stream", hint=did_you_mean(written.name, known))
    return found


def _time_of(node: exp.Expr, stream: FromStream) -> str:
    """Return the time column of a window. It must be a progressing attribute: only those have a watermark that closes
    windows."""
    times = times_of(stream.node)
    if not times:
        detail, hint = why_no_time(stream.node)
        raise QueryError(_NO_TIME, detail=detail, hint=hint)
    written = _written_column(node)
    if written is None:
        return times[0]
    columns = columns_of_node(stream.node)
    found = spelled(written, columns)
    if found is None:
        hint = did_you_mean(written, columns)
        raise QueryError(f"unknown column `{written}` in stream `{stream.name}`", hint=hint)
    return progressing(found, stream.node, stream.name)


def progressing(column: str, node: Node, name: str) -> str:
    """Return the column if it is a progressing attribute of the node, else refuse it; `name` is the stream, for
    errors."""
    times = times_of(node)
    if column in times:
        return column
    if not times:
        detail, hint = why_no_time(node)
        raise QueryError(f"a window over `{column}` cannot be closed", detail=detail, hint=hint)
    known = " or ".join(f"`{time}`" for time in times)
    attribute = "its progressing attribute," if len(times) == 1 else "its progressing attributes"
    raise QueryError(
        f"a window over `{column}` cannot be closed",
        detail=f"the progress of {f'`{name}`' if name else 'the rows'} is known by {attribute} {known}",
        hint=f"use {known}, or declare WATERMARK FOR {column} in the source",
    )


def _written_column(node: exp.Expr) -> str | None:
    """Return the column of `ts` or `DESCRIPTOR(ts)`; None if a bracket window has no WA."""
    node = without_parentheses(node)
    if isinstance(node, exp.Anonymous) and node.name.upper() == "DESCRIPTOR" and len(node.expressions) == 1:
        node = node.expressions[0]
    if isinstance(node, exp.Null):
        return None
    if not isinstance(node, exp.Column):
        raise QueryError("the second argument of a window is its time column", hint="as in TUMBLE(stream, ts, ...)")
    return ".".join(dotted_names(node))


def span_of(node: exp.Expr, stream: Node, text: ScriptText) -> int:
    """Return a length in units of the stream's time: microseconds for a TIMESTAMP, a plain number for a BIGINT."""
    is_timestamp = pa.types.is_timestamp(time_type(stream))
    match _constant(node, text):
        case Literal(timedelta() as span) if is_timestamp:
            return _limited(microseconds(span))
        case Literal(int() as number) if not is_timestamp and not isinstance(number, bool):
            return _limited(number)
    if is_timestamp:
        raise QueryError("a window over a TIMESTAMP takes an INTERVAL", hint="as in INTERVAL '1' MINUTE")
    raise QueryError("a window over a BIGINT takes a whole number", hint="as in TUMBLE(stream, ts, 60)")


def may_have_gaps(node: exp.Expr | None) -> bool:
    """Return the value of `gaps => true`, false if it is missing."""
    match node:
        case None:
            return False
        case exp.Boolean():
            return bool(node.this)
    raise QueryError("`gaps` is true or false", hint="write gaps => true, or leave it out")


def warn_of_gaps(window: Window, written: tuple[exp.Expr, exp.Expr], text: ScriptText) -> None:
    """Record a warning if rows between two windows are in no window; `written` are the trees of size and slide."""
    size, slide = (node.sql(dialect="duckdb") for node in written)
    if (found := gap_warning(window.size, window.slide, (size, slide), _HOW_GAPS)) is not None:
        text.warn(found, place_of(written[1]))


def row_count(node: exp.Expr, text: ScriptText) -> int:
    """Return the number of rows that the tree says."""
    match _constant(node, text):
        case Literal(int() as number) if not isinstance(number, bool):
            return _limited(number)
    raise QueryError("a window of rows takes a whole number", hint="as in [ROWS 100 SLIDE 10]")


def _constant(node: exp.Expr, text: ScriptText) -> Expr:
    return translate(node, Scope(text, ()))


def _limited(span: int) -> int:
    """Return the length; refuse one that could overflow 64 bits."""
    if abs(span) > _LONGEST:
        detail = f"a span is at most {_LONGEST} units of the time column"
        raise QueryError("the window is too long", detail=detail, hint="use a shorter one")
    return span
