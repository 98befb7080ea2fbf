"""UNION and UNION ALL: all rows of several queries, with columns matched by position."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
from sqlglot import exp

from penstock.errors import QueryError
from penstock.expr.tree import Column, Named
from penstock.plan.common_types import cast_to, common_type
from penstock.plan.compile.subqueries import node_schema
from penstock.plan.logical import Distinct, Node, Project, Union
from penstock.plan.lost_time import why_no_time
from penstock.plan.schema import columns_of_node, times_of
from penstock.sql.parse.refusals import check_set_operation
from penstock.sql.parse.tree import extra_parts, placing
from penstock.sql.streams.stream import Context, stream_of_plan, whole


def plan_union(query: exp.SetOperation, context: Context) -> Node:
    """Plan UNION ALL, or UNION, which removes duplicate rows."""
    check_set_operation(query, context.text)
    distinct = bool(query.args.get("distinct"))
    parts = list(_parts(query, distinct))
    nodes = [_plan(part, context) for part in parts]
    with placing(parts[1], context.text):
        union = union_of(nodes)
        return once(union, "UNION", "write UNION ALL, or select the time in each part") if distinct else union


def _parts(query: exp.Expr, distinct: bool) -> Iterator[exp.Expr]:
    """Yield the queries of a chain of unions of the same kind, from left to right."""
    if isinstance(query, exp.Union) and bool(query.args.get("distinct")) == distinct and _is_bare(query):
        yield from _parts(query.this, distinct)
        yield from _parts(query.expression, distinct)
    else:
        yield query


def _is_bare(query: exp.Union) -> bool:
    """Return whether the union has no clause such as ORDER BY or LIMIT."""
    return not any(extra_parts(query, ("this", "expression", "distinct", "with_")))


def _plan(part: exp.Expr, context: Context) -> Node:
    with placing(part, context.text):
        return whole(stream_of_plan(context.plan(part, context), "")).node


def union_of(nodes: Sequence[Node]) -> Union:
    """Return the union of the nodes; columns of different types are cast to their common type."""
    widths = {len(columns_of_node(node)) for node in nodes}
    if len(widths) > 1:
        counts = ", ".join(str(len(columns_of_node(node))) for node in nodes)
        what, hint = "the parts of a UNION have different numbers of columns", "select the same columns in each of them"
        raise QueryError(what, detail=f"they have {counts}", hint=hint)
    schemas = [node_schema(node) for node in nodes]
    wanted = [
        common_type([schema.types[i] for schema in schemas], f"columns {i + 1} of a UNION") for i in range(widths.pop())
    ]
    return Union(tuple(_typed(node, schema.types, wanted) for node, schema in zip(nodes, schemas, strict=True)))


def _typed(node: Node, has: Sequence[pa.DataType], wanted: Sequence[pa.DataType]) -> Node:
    """Return `node` with its columns cast from the types `has` to `wanted`."""
    if list(has) == list(wanted):
        return node
    columns = columns_of_node(node)
    casts = [cast_to(Column(name), old, new) for name, old, new in zip(columns, has, wanted, strict=True)]
    return Project(node, tuple(map(Named, columns, casts)))


def once(node: Node, what: str, hint: str) -> Distinct:
    """Remove duplicate rows. The rows need a time column, so that old rows can be dropped from state.

    `what` names the clause in the error, `hint` is its default hint.
    """
    times = times_of(node)
    if not times:
        why, what_to_do = why_no_time(node)
        raise QueryError(
            f"{what} needs a time column in its result",
            detail=f"without one, all rows would have to be kept forever; {why}",
            hint=what_to_do if "JOIN" in why else hint,
        )
    return Distinct(node, times[0])
