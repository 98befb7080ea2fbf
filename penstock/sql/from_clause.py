"""The FROM clause: a source, a view, a query in parentheses, or a window over one of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from sqlglot import exp

from penstock.errors import did_you_mean
from penstock.operators.window import Window
from penstock.plan.columns import columns_of_node
from penstock.plan.nodes import Node
from penstock.sql.place import ScriptText
from penstock.sql.refusals import not_a_select
from penstock.sql.scope import Scope, spelled
from penstock.sql.tree import extra_parts, place_of, without_parentheses


@dataclass(frozen=True)
class Context:
    """What a query is read in: the text, the sources and views by name, and how a query inside it is planned."""

    text: ScriptText
    streams: Mapping[str, Node]
    plan: Callable[[exp.Expr, Context], Node]


@dataclass(frozen=True)
class Stream:
    """What FROM gives. `implied`: the window belongs to the stream, so GROUP BY need not name it."""

    node: Node
    name: str
    window: Window | None = None
    implied: bool = False

    def scope(self, text: ScriptText) -> Scope:
        return Scope(text, self.name, columns_of_node(self.node))


WindowReader = Callable[[exp.Anonymous, Context], Stream]


def stream_of(select: exp.Select, context: Context, read_window: WindowReader) -> Stream:
    """The stream a SELECT reads, under the alias it has there."""
    clause = select.args.get("from_")
    if clause is None:
        raise context.text.error("the query has no FROM", place_of(select), hint="say which source it reads")
    table = clause.this
    if any(extra_parts(table, ("this", "alias"))):
        raise context.text.error(
            "FROM takes a source, a view, a window or a query in parentheses", place_of(table), hint="and an alias"
        )
    stream = _unnamed(table, context, read_window)
    return replace(stream, name=_alias(table, context.text) or stream.name)


def _unnamed(table: exp.Expr, context: Context, read_window: WindowReader) -> Stream:
    match table:
        case exp.Table() if isinstance(table.this, exp.Anonymous):
            return read_window(table.this, context)
        case exp.Table() if isinstance(table.this, exp.Identifier):
            return find_stream(table.name, place_of(table), context)
        case exp.Subquery():
            return Stream(context.plan(table.this, context), "")
    raise context.text.error("FROM takes a source, a view, a window or a query in parentheses", place_of(table))


def _alias(table: exp.Expr, text: ScriptText) -> str:
    alias = table.args.get("alias")
    if isinstance(alias, exp.TableAlias) and any(extra_parts(alias, ("this",))):
        raise text.error("an alias of FROM names the stream only", place_of(alias), hint="name columns in the SELECT")
    return str(table.alias)


def find_stream(name: str, offset: int, context: Context) -> Stream:
    """A source or a view, by name."""
    found = spelled(name, context.streams)
    if found is None:
        hint = did_you_mean(name, context.streams) or "declare it first, with CREATE SOURCE"
        raise context.text.error(f"unknown source or view `{name}`", offset, hint=hint)
    return Stream(context.streams[found], found)


def argument_stream(node: exp.Expr, context: Context) -> Stream:
    """The first argument of a window: a source, a view, or a query in parentheses."""
    match without_parentheses(node):
        case exp.Column() as column if not any(extra_parts(column, ("this",))):
            return find_stream(column.name, place_of(column), context)
        case exp.Subquery() | exp.Query() as query:
            return Stream(context.plan(query, context), "")
    raise not_a_select(node, context.text)
