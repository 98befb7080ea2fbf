"""From the tree of a SELECT to a plan: [Filter] -> [Project], or [Filter] -> Aggregate -> [Filter] -> Project."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from penstock.expressions import Named
from penstock.plan.columns import WINDOW_COLUMNS
from penstock.plan.nodes import Filter, Node, Project
from penstock.sql.aggregate_names import has_aggregate
from penstock.sql.expression import translate
from penstock.sql.from_clause import Context, Stream, stream_of
from penstock.sql.grouped import grouped
from penstock.sql.refusals import check_clauses, not_a_select
from penstock.sql.result_columns import is_star, items_of, output_names
from penstock.sql.scope import Scope
from penstock.sql.tree import extra_parts, place_of
from penstock.sql.window_call import window_call

_NEEDS_WINDOW = "a continuous aggregate needs a window: without one it would never be complete"
_AS_IN = "as in FROM TUMBLE(calls, ts, INTERVAL '1' MINUTE) ... GROUP BY window_start"


def plan_query(query: exp.Expr, context: Context) -> Node:
    """The plan of a query."""
    while isinstance(query, exp.Subquery | exp.Paren) and not any(extra_parts(query, ("this",))):
        query = query.this
    if not isinstance(query, exp.Select):
        raise not_a_select(query, context.text)
    check_clauses(query, context.text)
    stream = stream_of(query, context, window_call)
    _check_window(query, stream, context)
    rows = stream.scope(context.text)
    below = _filtered(stream, query, rows)
    if stream.window is None:
        return _projected(below, query, rows)
    return grouped(query, below, stream.window, rows, stream.implied)


def _check_window(select: exp.Select, stream: Stream, context: Context) -> None:
    """A window and aggregates go together."""
    clauses = [select.args.get("group"), select.args.get("having")]
    aggregated = any(map(has_aggregate, select.expressions + [c for c in clauses if c is not None]))
    if stream.window is None and (aggregated or any(clauses)):
        raise context.text.error(_NEEDS_WINDOW, _aggregate_place(select), hint=_AS_IN)
    if stream.window is not None and not aggregated:
        raise context.text.error(
            "a window without an aggregate is not supported yet",
            place_of(select),
            hint="select an aggregate such as count(*), or leave the window out",
        )


def _aggregate_place(select: exp.Select) -> int:
    return place_of(next((e for e in select.expressions if has_aggregate(e)), select))


def _filtered(stream: Stream, select: exp.Select, rows: Scope) -> Node:
    where = select.args.get("where")
    if where is None:
        return stream.node
    later = dict.fromkeys(WINDOW_COLUMNS, "WHERE is about rows, before they are in windows; use HAVING for windows")
    scope = replace(rows, elsewhere=later, why_no_aggregate="WHERE is about rows, so an aggregate belongs in HAVING")
    return Filter(stream.node, translate(where.this, scope))


def _projected(below: Node, select: exp.Select, rows: Scope) -> Node:
    if len(select.expressions) == 1 and is_star(select.expressions[0], rows):
        return below
    items = items_of(select, rows)
    names = output_names(items, [item.default_name for item in items], rows)
    return Project(below, tuple(Named(name, item.expression) for name, item in zip(names, items, strict=True)))
