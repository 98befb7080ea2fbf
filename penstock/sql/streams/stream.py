"""The stream of one item of FROM: a source, a view, a subquery, or a window over one of them."""

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
    """The environment of a query: the text, the streams by name, and the function that plans subqueries."""

    text: ScriptText
    streams: Mapping[str, Planned]
    plan: Callable[[exp.Expr, Context], Planned]


@dataclass(frozen=True)
class FromStream:
    """The stream of an item of FROM, under its alias.

    `implied`: the window is a bracket window, which GROUP BY need not name. `partition` are the PARTITION BY columns of
    a session, None if there is no such clause. `ranked` is set while the bound on ROW_NUMBER() is not known; `node`
    then has the right columns only.
    """

    node: Node
    name: str
    window: Window | Session | RowWindow | None = None
    implied: bool = False
    partition: tuple[str, ...] | None = None
    ranked: Ranked | None = None


WindowReader = Callable[[exp.Anonymous, Context], FromStream]


def stream_of(table: exp.Expr, context: Context, read_call: WindowReader) -> FromStream:
    """Return the stream of an item of FROM, without its alias; `read_call` reads windows and other calls."""
    match table:
        case exp.Table() if isinstance(table.this, exp.Anonymous):
            return read_call(table.this, context)
        case exp.Table() if isinstance(table.this, exp.Identifier):
            return find_stream(table.name, place_of(table), context)
        case exp.Subquery():
            return stream_of_plan(context.plan(table.this, context), "")
    raise context.text.error(ITEMS, place_of(table), hint="name a source or a view, or write a query as (SELECT ...)")


def find_stream(name: str, offset: int, context: Context) -> FromStream:
    """Return the stream of a source or view by name; `offset` is the place of the name."""
    found = spelled(name, context.streams)
    if found is None:
        hint = did_you_mean(name, context.streams) or "declare it first, with CREATE SOURCE"
        raise context.text.error(f"unknown source or view `{name}`", offset, hint=hint)
    return stream_of_plan(context.streams[found], found)


def stream_of_plan(planned: Planned, name: str) -> FromStream:
    """Return the stream of a planned query."""
    if isinstance(planned, Ranked):
        return FromStream(planned.first(1), name, ranked=planned)
    return FromStream(planned, name)


def whole(stream: FromStream) -> FromStream:
    """Return the stream; refuse one whose ROW_NUMBER() has no bound."""
    if stream.ranked is not None:
        raise unbounded(stream.ranked)
    return stream


def unbounded(ranked: Ranked) -> QueryError:
    """Return the error for a ROW_NUMBER() without a bound."""
    return QueryError(
        "ROW_NUMBER() needs a bound: how many rows of each group are wanted",
        hint=f"write SELECT * FROM (...) WHERE {ranked.column} <= 3 around it, or QUALIFY ROW_NUMBER() OVER (...) <= 3",
    )
