"""One item of FROM: a source, a view, a query in parentheses, or a window over one of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from sqlglot import exp

from penstock.errors import QueryError, did_you_mean
from penstock.operators.window.kinds import RowWindow, Session
from penstock.operators.window.windows import Window
from penstock.plan.logical import Node
from penstock.sql.names.scope import spelled
from penstock.sql.parse.place import ScriptText
from penstock.sql.parse.tree import place_of
from penstock.sql.streams.ranked import Ranked

ITEMS = "FROM takes a source, a view, a window or a query in parentheses"
Planned = Node | Ranked


@dataclass(frozen=True)
class Context:
    """What a query is read in: the text, the streams by name, and how a query inside it is planned."""

    text: ScriptText
    streams: Mapping[str, Planned]
    plan: Callable[[exp.Expr, Context], Planned]


@dataclass(frozen=True)
class Stream:
    """What an item of FROM gives, under its alias.

    `implied`: the window belongs to the stream, so GROUP BY need not name it. `partition` are the keys of a session, as
    far as they are said here. `ranked`: the rows are still to be bounded by their number; `node` has the columns then.
    """

    node: Node
    name: str
    window: Window | Session | RowWindow | None = None
    implied: bool = False
    partition: tuple[str, ...] | None = None
    ranked: Ranked | None = None


WindowReader = Callable[[exp.Anonymous, Context], Stream]


def stream_of(table: exp.Expr, context: Context, read_call: WindowReader) -> Stream:
    """The stream of an item of FROM, without its alias."""
    match table:
        case exp.Table() if isinstance(table.this, exp.Anonymous):
            return read_call(table.this, context)
        case exp.Table() if isinstance(table.this, exp.Identifier):
            return find_stream(table.name, place_of(table), context)
        case exp.Subquery():
            return stream_of_plan(context.plan(table.this, context), "")
    raise context.text.error(ITEMS, place_of(table), hint="name a source or a view, or write a query as (SELECT ...)")


def find_stream(name: str, offset: int, context: Context) -> Stream:
    """A source or a view, by name."""
    found = spelled(name, context.streams)
    if found is None:
        hint = did_you_mean(name, context.streams) or "declare it first, with CREATE SOURCE"
        raise context.text.error(f"unknown source or view `{name}`", offset, hint=hint)
    return stream_of_plan(context.streams[found], found)


def stream_of_plan(planned: Planned, name: str) -> Stream:
    if isinstance(planned, Ranked):
        return Stream(planned.first(1), name, ranked=planned)
    return Stream(planned, name)


def whole(stream: Stream) -> Stream:
    """The stream itself, which must not wait for a bound on the number of its rows."""
    if stream.ranked is not None:
        raise unbounded(stream.ranked)
    return stream


def unbounded(ranked: Ranked) -> QueryError:
    return QueryError(
        "ROW_NUMBER() needs a bound: how many rows of each group are wanted",
        hint=f"write SELECT * FROM (...) WHERE {ranked.column} <= 3 around it, or QUALIFY ROW_NUMBER() OVER (...) <= 3",
    )
