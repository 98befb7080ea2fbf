"""TUMBLE(stream, ts, size [, offset]) and HOP(stream, ts, slide, size [, offset]) in FROM."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pyarrow as pa
from sqlglot import exp

from penstock.errors import QueryError, did_you_mean
from penstock.expressions import Literal
from penstock.operators.window import Window
from penstock.plan.columns import columns_of_node, time_column, time_type
from penstock.plan.nodes import Aggregate, Node, Source
from penstock.sql.expression import translate
from penstock.sql.from_clause import Context, Stream, argument_stream
from penstock.sql.interval import microseconds
from penstock.sql.scope import Scope, spelled
from penstock.sql.tree import place_of, placing, without_parentheses
from penstock.sql.window_tokens import BRACKET

_PARAMETERS = {
    "TUMBLE": ("DATA", "TIMECOL", "SIZE", "OFFSET"),
    "HOP": ("DATA", "TIMECOL", "SLIDE", "SIZE", "OFFSET"),
    BRACKET.upper(): ("DATA", "TIMECOL", "SLIDE", "SIZE"),
}
_HOW = (
    "write TUMBLE(stream, ts, INTERVAL '1' MINUTE), or HOP(stream, ts, INTERVAL '10' SECOND, INTERVAL '1' MINUTE) "
    "with the slide before the size"
)
_LONGEST = 2**62

Arguments = dict[str, exp.Expr]


def window_call(call: exp.Anonymous, context: Context) -> Stream:
    """The stream of a window function, with its window."""
    kind = call.name.upper()
    if kind not in _PARAMETERS:
        hint = did_you_mean(kind, ["TUMBLE", "HOP"])
        raise context.text.error(f"unknown window `{call.name}`", place_of(call), hint=hint)
    with placing(call, context.text):
        arguments = _arguments(call, _PARAMETERS[kind])
        stream = _over(argument_stream(arguments["DATA"], context))
        return replace(stream, window=_window(arguments, stream, context), implied=kind == BRACKET.upper())


def _arguments(call: exp.Anonymous, parameters: tuple[str, ...]) -> Arguments:
    """The arguments by parameter; Flink also writes them by name, as in `SIZE => INTERVAL '1' MINUTE`."""
    arguments: Arguments = {}
    for parameter, argument in zip(parameters, call.expressions, strict=False):
        if isinstance(argument, exp.Kwarg):
            arguments[argument.this.name.upper()] = argument.expression
        else:
            arguments[parameter] = argument
    missing = [p for p in parameters if p not in arguments and p != "OFFSET"]
    if missing or set(arguments) - set(parameters) or len(call.expressions) > len(parameters):
        raise QueryError(f"{call.name} has the wrong arguments", hint=_HOW)
    return arguments


def _over(stream: Stream) -> Stream:
    """Aggregates over aggregates come later: then this check goes."""
    if _is_aggregated(stream.node):
        raise QueryError(
            "a window over the result of an aggregate is not supported yet",
            hint="aggregate the source itself, in a larger window",
        )
    return stream


def _is_aggregated(node: Node) -> bool:
    while not isinstance(node, Source):
        if isinstance(node, Aggregate):
            return True
        node = node.input
    return False


def _window(arguments: Arguments, stream: Stream, context: Context) -> Window:
    time = _time(arguments["TIMECOL"], stream)
    size = _span(arguments["SIZE"], stream, context)
    slide = _span(arguments["SLIDE"], stream, context) if "SLIDE" in arguments else size
    offset = _span(arguments["OFFSET"], stream, context) if "OFFSET" in arguments else 0
    return Window(time, size, slide, offset)


def _time(node: exp.Expr, stream: Stream) -> str:
    """The time column, which has to be the progressing attribute: only that tells when a window is complete."""
    time = time_column(stream.node)
    if time is None:
        raise QueryError(
            "the query inside the window does not pass on the time of its source",
            hint="select the time column as it is, with or without an alias",
        )
    written = _written_column(node)
    if written is None or spelled(written, columns_of_node(stream.node)) == time:
        return time
    if spelled(written, columns_of_node(stream.node)) is None:
        hint = did_you_mean(written, columns_of_node(stream.node))
        raise QueryError(f"unknown column `{written}` in stream `{stream.name}`", hint=hint)
    raise QueryError(
        f"a window over `{written}` cannot be closed",
        detail=f"the progress of `{stream.name}` is known by its progressing attribute, `{time}`",
        hint=f"use `{time}`, or declare WATERMARK FOR {written} in the source",
    )


def _written_column(node: exp.Expr) -> str | None:
    """`ts` or `DESCRIPTOR(ts)`; None where a window in brackets leaves it out."""
    node = without_parentheses(node)
    if isinstance(node, exp.Anonymous) and node.name.upper() == "DESCRIPTOR" and len(node.expressions) == 1:
        node = node.expressions[0]
    if isinstance(node, exp.Null):
        return None
    if not isinstance(node, exp.Column):
        raise QueryError("the second argument of a window is its time column", hint=_HOW)
    return str(node.name)


def _span(node: exp.Expr, stream: Stream, context: Context) -> int:
    is_timestamp = pa.types.is_timestamp(time_type(stream.node))
    match translate(node, Scope(context.text, stream.name, ())):
        case Literal(timedelta() as span) if is_timestamp:
            return _limited(microseconds(span))
        case Literal(int() as number) if not is_timestamp and not isinstance(number, bool):
            return _limited(number)
    if is_timestamp:
        raise QueryError("a window over a TIMESTAMP is measured by an INTERVAL", hint="as in INTERVAL '1' MINUTE")
    raise QueryError("a window over a BIGINT is measured by a whole number", hint="as in TUMBLE(stream, ts, 60)")


def _limited(span: int) -> int:
    if abs(span) > _LONGEST:
        raise QueryError("the window is too long", detail=f"a span is at most {_LONGEST} units of the time column")
    return span
