"""Nodes over whole rows from what users write: unions, functions over batches, top-n, order; and what is refused."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa

from penstock.api.columns import as_operand
from penstock.api.sql_text import expression_of
from penstock.api.times import Usual, chosen_time, time_kept
from penstock.errors import QueryError
from penstock.expr.tree import Column, Expr, Named
from penstock.plan.common_types import cast_to, common_type
from penstock.plan.compile.subqueries import node_schema
from penstock.plan.endless import require_end
from penstock.plan.logical import BatchFunction, InOrder, MapBatches, Node, Order, Project, TopN, Union
from penstock.plan.schema import columns_of_node
from penstock.plan.size import MAX_HEIGHT, MAX_NODES, measured
from penstock.types import arrow_type, normalise

_PER_WINDOW = 'put .windowed(ps.tumbling("1m")) before it, or choose a time with per=...'
Schema: TypeAlias = "pa.Schema | Mapping[str, str]"


@dataclass(frozen=True)
class OrderSpec:
    """An ordering that does not know its stream yet; a string is read then."""

    expression: Expr | str
    descending: bool
    nulls_first: bool

    def over(self, columns: Collection[str]) -> Order:
        return Order(expression_of(self.expression, columns, "top(...)"), self.descending, self.nulls_first)


def asc(column: object, *, nulls_first: bool = False) -> OrderSpec:
    """Smallest first, for `top`."""
    return OrderSpec(as_operand(column), False, nulls_first)


def desc(column: object, *, nulls_first: bool = False) -> OrderSpec:
    """Largest first, for `top`: `top(3, by=ps.desc("price"))`, `top(3, by=ps.desc("price * amount"))`."""
    return OrderSpec(as_operand(column), True, nulls_first)


def top_node(
    node: Node,
    n: int,
    by: object,
    keys: Sequence[object],
    time: str | None,
    number: str | None = None,
    what: str = "a top-n",
) -> TopN:
    if n < 1:
        raise QueryError(
            "a top-n needs a number of rows above zero", detail=f"n is {n}", hint='write it as in top(3, by="price")'
        )
    if time is None:
        require_end(node, what, _PER_WINDOW)
    given = by if isinstance(by, list | tuple) else [by]
    columns = columns_of_node(node)
    order = tuple((part if isinstance(part, OrderSpec) else asc(part)).over(columns) for part in given)
    return TopN(node, tuple(expression_of(key, columns, "keys") for key in keys), time, order, n, number)


def union_node(inputs: Sequence[Node]) -> Union:
    """Columns go by position; where their types differ, all are cast to the common one."""
    schemas = [node_schema(node) for node in inputs]
    widths = {len(schema) for schema in schemas}
    if len(widths) > 1:
        raise QueryError(
            "the inputs of a union must have equally many columns",
            detail="; ".join(", ".join(schema.names) for schema in schemas),
            hint="select the same columns of each, in the same order",
        )
    types = [[schema.field(i).type for schema in schemas] for i in range(widths.pop())]
    wanted = [common_type(column, f"columns {i + 1} of a union") for i, column in enumerate(types)]
    return Union(tuple(_cast(node, schema, wanted) for node, schema in zip(inputs, schemas, strict=True)))


def _cast(node: Node, schema: pa.Schema, wanted: Sequence[pa.DataType]) -> Node:
    if schema.types == list(wanted):
        return node
    return Project(
        node, tuple(Named(f.name, cast_to(Column(f.name), f.type, t)) for f, t in zip(schema, wanted, strict=True))
    )


def map_node(
    node: Node,
    function: Callable[[pa.Table], pa.Table],
    schema: Schema,
    time: str | Usual | None,
    name: str | None = None,
) -> MapBatches:
    fields = schema if isinstance(schema, pa.Schema) else pa.schema([(n, arrow_type(t)) for n, t in schema.items()])
    kept = time_kept(node, fields.names) if isinstance(time, Usual) else time
    return MapBatches(node, BatchFunction(name or _name(function), function), normalise(fields), kept)


def _name(function: Callable[[pa.Table], pa.Table]) -> str:
    """What a checkpoint knows the function by."""
    if not hasattr(function, "__qualname__"):
        raise QueryError(
            "a function over batches needs a name",
            detail=f"{type(function).__name__} objects have none",
            hint='give it one: map_batches(..., name="clean")',
        )
    return f"{function.__module__}.{function.__qualname__}"


def in_order_node(node: Node, by: str | Sequence[str], time: str | None = None) -> InOrder:
    """Rows in order of time; those with equal values of the columns `by` among themselves."""
    columns = (by,) if isinstance(by, str) else tuple(by)
    return InOrder(node, chosen_time(node, time, "an order"), columns)


def checked(node: Node) -> Node:
    """Return the node itself, which must be one that can be planned."""
    _check_size(node)
    node_schema(node)
    return node


def _check_size(node: Node) -> None:
    """Refuse a plan that is too high or too large to be walked."""
    height, count = measured(node)
    if height > MAX_HEIGHT:
        raise QueryError(
            f"the stream has more than {MAX_HEIGHT} operators behind one another",
            hint="put conditions together with &, and columns into one select or with_columns",
        )
    if count > MAX_NODES:
        raise QueryError(
            f"the stream has more than {MAX_NODES} operators",
            detail="a stream that is read twice counts twice",
            hint="read streams less often, or write one to files and read it from there",
        )
