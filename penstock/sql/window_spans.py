"""The time column and the spans of a window."""

from __future__ import annotations

from datetime import timedelta

import pyarrow as pa
from sqlglot import exp

from penstock.errors import QueryError, did_you_mean
from penstock.expr.tree import Expr, Literal
from penstock.operators.window.gaps import gap_warning
from penstock.operators.window.windows import Window
from penstock.plan.logical import Node
from penstock.plan.lost_time import why_no_time
from penstock.plan.schema import columns_of_node, time_type, times_of
from penstock.sql.expression import translate
from penstock.sql.from_clause import Stream
from penstock.sql.interval import microseconds
from penstock.sql.place import ScriptText
from penstock.sql.scope import Scope, spelled
from penstock.sql.tree import dotted_names, place_of, without_parentheses

_LONGEST = 2**62
_HOW_GAPS = "HOP takes the slide before the size; add gaps => true (in brackets, GAPS) if this is meant"
_NO_TIME = "the query inside the window does not pass on the time of its source"


def time_of(node: exp.Expr, stream: Stream) -> str:
    """The time column, which has to be a progressing attribute: only that tells when a window is complete."""
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
    """The column itself, if it tells the time."""
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
    """`ts` or `DESCRIPTOR(ts)`; None where a window in brackets leaves it out."""
    node = without_parentheses(node)
    if isinstance(node, exp.Anonymous) and node.name.upper() == "DESCRIPTOR" and len(node.expressions) == 1:
        node = node.expressions[0]
    if isinstance(node, exp.Null):
        return None
    if not isinstance(node, exp.Column):
        raise QueryError("the second argument of a window is its time column", hint="as in TUMBLE(stream, ts, ...)")
    return ".".join(dotted_names(node))


def span_of(node: exp.Expr, stream: Node, text: ScriptText) -> int:
    """A span in the unit of the stream's time."""
    is_timestamp = pa.types.is_timestamp(time_type(stream))
    match _constant(node, text):
        case Literal(timedelta() as span) if is_timestamp:
            return _limited(microseconds(span))
        case Literal(int() as number) if not is_timestamp and not isinstance(number, bool):
            return _limited(number)
    if is_timestamp:
        raise QueryError("a window over a TIMESTAMP is measured by an INTERVAL", hint="as in INTERVAL '1' MINUTE")
    raise QueryError("a window over a BIGINT is measured by a whole number", hint="as in TUMBLE(stream, ts, 60)")


def may_have_gaps(node: exp.Expr | None) -> bool:
    """What `gaps => true` says; false where it is left out."""
    match node:
        case None:
            return False
        case exp.Boolean():
            return bool(node.this)
    raise QueryError("`gaps` is true or false", hint="write gaps => true, or leave it out")


def warn_of_gaps(window: Window, written: tuple[exp.Expr, exp.Expr], text: ScriptText) -> None:
    """Note that rows between the windows are in none; `written` are the trees of size and slide."""
    size, slide = (node.sql(dialect="duckdb") for node in written)
    if (found := gap_warning(window.size, window.slide, (size, slide), _HOW_GAPS)) is not None:
        text.warn(found, place_of(written[1]))


def row_count(node: exp.Expr, text: ScriptText) -> int:
    match _constant(node, text):
        case Literal(int() as number) if not isinstance(number, bool):
            return _limited(number)
    raise QueryError("a window of rows is measured by a whole number", hint="as in [ROWS 100 SLIDE 10]")


def _constant(node: exp.Expr, text: ScriptText) -> Expr:
    return translate(node, Scope(text, ()))


def _limited(span: int) -> int:
    if abs(span) > _LONGEST:
        detail = f"a span is at most {_LONGEST} units of the time column"
        raise QueryError("the window is too long", detail=detail, hint="use a shorter one")
    return span
