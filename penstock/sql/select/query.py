"""Plan a query from its tree.

rows of FROM and WHERE -> [Aggregate -> [Filter (HAVING)]] -> [TopN -> [Filter (QUALIFY)]] -> [Project] -> [Distinct]
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from penstock.errors import QueryError
from penstock.expr.tree import Column, Expr, Named
from penstock.expr.walk import columns_of, substitute
from penstock.plan.logical import Node, Project
from penstock.plan.schema import WINDOW_COLUMNS, WINDOW_START, columns_of_node, times_of
from penstock.sql.names.aggregate_names import has_aggregate
from penstock.sql.parse.refusals import check_clauses, check_distinct, not_a_select
from penstock.sql.parse.tree import extra_parts, place_of, placing
from penstock.sql.select.grouped import grouped
from penstock.sql.select.over import Numbering
from penstock.sql.select.result_columns import is_star, items_of, output_names
from penstock.sql.select.rows import SelectInput, rows_of
from penstock.sql.select.shaped import Shaped, qualify_of
from penstock.sql.select.slots import NUMBER_NAME, ROW_NUMBER_SLOT
from penstock.sql.streams.ranked import Ranked, bounded, require_time
from penstock.sql.streams.stream import Context, Planned, stream_of_plan, whole
from penstock.sql.streams.union import once, plan_union
from penstock.types import unique_name


def plan_whole(query: exp.Expr, context: Context) -> Node:
    """Plan a query that is not inside another one: nothing around it can bound its ROW_NUMBER()."""
    with placing(query, context.text):
        return whole(stream_of_plan(plan_query(query, context), "")).node


def plan_query(query: exp.Expr, context: Context) -> Planned:
    """Plan a query; the result is Ranked if its rows are numbered and not bounded yet."""
    while isinstance(query, exp.Subquery | exp.Paren) and not any(extra_parts(query, ("this",))):
        query = query.this
    if isinstance(query, exp.Select | exp.SetOperation):
        context = _with_names(query, context)
    if isinstance(query, exp.SetOperation):
        return plan_union(query, context)
    if not isinstance(query, exp.Select):
        raise not_a_select(query, context.text)
    return _plan_select(query, context)


def _plan_select(select: exp.Select, context: Context) -> Planned:
    check_clauses(select, context.text)
    is_grouped = _is_grouped(select)
    rows = rows_of(select, context, is_grouped)
    numbering = Numbering()
    shaped = grouped(select, rows, numbering) if is_grouped else _plain(select, rows, numbering)
    with placing(select, context.text):
        if shaped.over is not None or select.args.get("qualify"):
            return _numbered(select, shaped)
        if distinct := select.args.get("distinct"):
            check_distinct(distinct)
            return _distinct(shaped, rows.implied and not is_grouped)
    if not is_grouped and _is_all(select, shaped, rows):
        return shaped.node
    return Project(shaped.node, shaped.columns)


def _is_grouped(select: exp.Select) -> bool:
    clauses = [select.args.get("group"), select.args.get("having"), select.args.get("qualify")]
    aggregated = any(map(has_aggregate, select.expressions + [c for c in clauses if c is not None]))
    return aggregated or any(clauses[:2])


def _is_all(select: exp.Select, shaped: Shaped, rows: SelectInput) -> bool:
    """Return whether the query selects all columns unchanged, so that no Project is needed."""
    is_only_star = len(select.expressions) == 1 and is_star(select.expressions[0], rows.scope)
    return is_only_star and shaped.columns == _identity(shaped.node)


def _identity(node: Node) -> tuple[Named, ...]:
    return tuple(Named(name, Column(name)) for name in columns_of_node(node))


def _plain(select: exp.Select, rows: SelectInput, numbering: Numbering) -> Shaped:
    """Read a SELECT that computes columns row by row."""
    scope = replace(rows.scope, on_over=numbering.take)
    items = items_of(select, scope)
    names = output_names(items, [item.names for item in items], scope)
    columns = tuple(Named(name, item.expression) for name, item in zip(names, items, strict=True))
    qualify = qualify_of(select, items, scope)
    return Shaped(rows.node, columns, numbering.over(rows.scope), qualify)


def _numbered(select: exp.Select, shaped: Shaped) -> Planned:
    """Plan numbered rows: bounded by QUALIFY, or to be bounded by the enclosing query."""
    if shaped.over is None:
        raise QueryError("QUALIFY needs a ROW_NUMBER()", hint="filter with WHERE or HAVING")
    if select.args.get("distinct"):
        raise QueryError("DISTINCT and ROW_NUMBER() cannot be in the same query", hint="write one inside the other")
    ranked = _ranked(shaped)
    if not select.args.get("qualify"):
        return ranked
    found = bounded(shaped.qualify, ROW_NUMBER_SLOT)
    if found is None:
        raise QueryError("QUALIFY needs a bound on ROW_NUMBER()", hint="as in QUALIFY ROW_NUMBER() OVER (...) <= 3")
    require_time(ranked)
    return ranked.first(found[0], [_with_number(condition, ranked.number) for condition in found[1]])


def _ranked(shaped: Shaped) -> Ranked:
    """Return the numbered rows with a name for the number that no column has."""
    assert shaped.over is not None
    of_number = [named.name for named in shaped.columns if named.expression == ROW_NUMBER_SLOT]
    column = of_number[0] if of_number else NUMBER_NAME
    number = unique_name(column, columns_of_node(shaped.node))
    columns = tuple(Named(named.name, _with_number(named.expression, number)) for named in shaped.columns)
    return Ranked(shaped.node, shaped.over.ranking(times_of(shaped.node)), number, columns, column)


def _with_number(expression: Expr, number: str) -> Expr:
    return substitute(expression, {ROW_NUMBER_SLOT.name: Column(number)})


def _distinct(shaped: Shaped, per_window: bool) -> Node:
    """Remove duplicate rows; with `per_window`, within each window even if its columns are not selected."""
    project = Project(shaped.node, shaped.columns)
    hint = "select the time, or window_start of a window in FROM, as it is"
    read = {name for named in shaped.columns for name in columns_of(named.expression)}
    if not per_window or read & set(WINDOW_COLUMNS):
        return once(project, "SELECT DISTINCT", hint)
    border = Named(unique_name(WINDOW_START, columns_of_node(project)), Column(WINDOW_START))
    with_border = once(Project(shaped.node, (border, *shaped.columns)), "SELECT DISTINCT", hint)
    return Project(with_border, tuple(Named(n.name, Column(n.name)) for n in shaped.columns))


def _with_names(query: exp.Expr, context: Context) -> Context:
    """Return the context with the queries of WITH added; they hide sources and views of the same name."""
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
        raise context.text.error("WITH cannot name columns", place_of(alias), hint="name columns in the SELECT")
    others = {name: node for name, node in context.streams.items() if name.lower() != alias.name.lower()}
    return replace(context, streams={**others, alias.name: context.plan(table.this, context)})
