"""WITH before a query: names for queries, each of which may use those before it."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from penstock.sql.from_clause import Context
from penstock.sql.tree import extra_parts, place_of


def with_names(query: exp.Expr, context: Context) -> Context:
    """The context in which the query behind a WITH is read; its names hide those of sources and views."""
    clause = query.args.get("with_")
    if clause is None:
        return context
    if clause.args.get("recursive"):
        raise context.text.error("WITH RECURSIVE is not supported", place_of(clause), hint="leave RECURSIVE out")
    for table in clause.expressions:
        context = _named(table, context)
    return context


def _named(table: exp.Expr, context: Context) -> Context:
    alias = table.args["alias"]
    if any(extra_parts(alias, ("this",))):
        raise context.text.error("WITH names the query only", place_of(alias), hint="name columns in the SELECT")
    others = {name: node for name, node in context.streams.items() if name.lower() != alias.name.lower()}
    return replace(context, streams={**others, alias.name: context.plan(table.this, context)})
