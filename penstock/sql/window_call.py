"""Calls in FROM: TUMBLE(stream, ts, size [, offset]), HOP(stream, ts, slide, size [, offset]) and
SESSION(stream, ts, gap), and what windows in brackets and the unions of the papers are brought to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from sqlglot import exp

from penstock.errors import QueryError, did_you_mean
from penstock.operators.window.kinds import RowWindow, Session
from penstock.operators.window.windows import Window
from penstock.plan.schema import columns_of_node
from penstock.sql.from_clause import Context, Stream, find_stream, stream_of_plan, whole
from penstock.sql.refusals import not_a_select
from penstock.sql.scope import spelled
from penstock.sql.set_operation import union_of
from penstock.sql.table_tokens import PARTITION, UNION
from penstock.sql.tree import extra_parts, place_of, placing, without_parentheses
from penstock.sql.window_spans import may_have_gaps, row_count, span_of, time_of, warn_of_gaps
from penstock.sql.window_tokens import BRACKET, ROWS

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

Arguments = dict[str, exp.Expr]
Window_ = Window | Session | RowWindow


def window_call(call: exp.Anonymous, context: Context) -> Stream:
    """The stream of a call in FROM, with its window."""
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


def _union(call: exp.Anonymous, context: Context) -> Stream:
    with placing(call, context.text):
        return Stream(union_of([_argument(part, context).node for part in call.expressions]), "")


def _argument(node: exp.Expr, context: Context) -> Stream:
    """The first argument of a window: a source, a view, a query in parentheses, or a union."""
    match without_parentheses(node):
        case exp.Column() as column if not any(extra_parts(column, ("this",))):
            return whole(find_stream(column.name, place_of(column), context))
        case exp.Subquery() | exp.Query() as query:
            return whole(stream_of_plan(context.plan(query, context), ""))
        case exp.Anonymous() as call if call.name == UNION:
            return _union(call, context)
    raise not_a_select(node, context.text)


def _arguments(call: exp.Anonymous, parameters: tuple[str, ...]) -> Arguments:
    """The arguments by parameter; Flink also writes them by name, as in `SIZE => INTERVAL '1' MINUTE`."""
    arguments: Arguments = {}
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
    """Whether the argument is written as `gaps = true`."""
    return isinstance(node, exp.EQ) and isinstance(node.this, exp.Column) and node.this.name.upper() == "GAPS"


def _window(arguments: Arguments, stream: Stream, context: Context) -> Window:
    time = time_of(arguments["TIMECOL"], stream)
    size = span_of(arguments["SIZE"], stream.node, context.text)
    slide = span_of(arguments["SLIDE"], stream.node, context.text) if "SLIDE" in arguments else size
    offset = span_of(arguments["OFFSET"], stream.node, context.text) if "OFFSET" in arguments else 0
    window = Window(time, size, slide, offset)
    if "SLIDE" in arguments and not may_have_gaps(arguments.get("GAPS")):
        warn_of_gaps(window, (arguments["SIZE"], arguments["SLIDE"]), context.text)
    return window


def _session(arguments: Arguments, stream: Stream, context: Context) -> Session:
    return Session(time_of(arguments["TIMECOL"], stream), span_of(arguments["GAP"], stream.node, context.text))


def _rows(arguments: Arguments, stream: Stream, context: Context) -> RowWindow:
    return RowWindow(row_count(arguments["SIZE"], context.text), row_count(arguments["SLIDE"], context.text))


_WINDOWS: dict[str, Callable[[Arguments, Stream, Context], Window_]] = {
    "TUMBLE": _window,
    "HOP": _window,
    "SESSION": _session,
    BRACKET.upper(): _window,
    ROWS.upper(): _rows,
}


def _is_partition(node: exp.Expr) -> bool:
    return isinstance(node, exp.Anonymous) and node.name == PARTITION


def _partition(call: exp.Anonymous, stream: Stream) -> tuple[str, ...] | None:
    """The columns of PARTITION BY behind the stream; only sessions have any."""
    clause = next(filter(_is_partition, call.expressions), None)
    if clause is None:
        return None
    if call.name.upper() != "SESSION":
        raise QueryError(f"{call.name} takes no PARTITION BY", hint="name the columns in GROUP BY")
    return tuple(_partition_column(node, stream) for node in clause.expressions)


def _partition_column(node: exp.Expr, stream: Stream) -> str:
    written = without_parentheses(node)
    known = columns_of_node(stream.node)
    if not isinstance(written, exp.Column) or (found := spelled(written.name, known)) is None:
        raise QueryError("PARTITION BY takes columns of the stream", hint=did_you_mean(written.name, known))
    return found
