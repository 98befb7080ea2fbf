"""Build plan nodes from the arguments of users: unions, functions over batches, top-n, order, joins; and refuse plans
that are too large."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa

from penstock.api.columns import as_operand
from penstock.api.lengths import Length, as_length, length_over
from penstock.api.sql_text import expression_of
from penstock.api.times import Usual, chosen_time, time_kept
from penstock.errors import QueryError, did_you_mean
from penstock.expr.tree import Column, Expr, Named
from penstock.operators.bands import Band
from penstock.plan.common_types import cast_to, common_type, type_of
from penstock.plan.compile.subqueries import node_schema
from penstock.plan.endless import require_end
from penstock.plan.logical import JOINS, BatchFunction, InOrder, Join, MapBatches, Node, Order, Project, TopN, Union
from penstock.plan.schema import WINDOW_START, columns_of_node, time_type
from penstock.plan.size import MAX_HEIGHT, MAX_NODES, measured
from penstock.type_names import arrow_type
from penstock.types import normalise, unique_name

_PER_WINDOW = 'put .windowed(ps.tumbling("1m")) before it, or choose a time with per=...'
Schema: TypeAlias = "pa.Schema | Mapping[str, str]"
Within = Length | tuple[Length, Length] | None
TimeNames = tuple[str | None, ...] | None
WINDOW = "window"  # value of `within`: rows of the same window


@dataclass(frozen=True)
class OrderSpec:
    """An ordering that is not yet bound to a stream. An expression that is a string is parsed when it is bound."""

    expression: Expr | str
    descending: bool
    nulls_first: bool

    def over(self, columns: Collection[str]) -> Order:
        """Bind the ordering to a stream with these columns."""
        return Order(expression_of(self.expression, columns, "top(...)"), self.descending, self.nulls_first)


def asc(column: object, *, nulls_first: bool = False) -> OrderSpec:
    """Order by `column`, smallest first, for `top`."""
    return OrderSpec(as_operand(column), False, nulls_first)


def desc(column: object, *, nulls_first: bool = False) -> OrderSpec:
    """Order by `column`, largest first, for `top`: `top(3, by=ps.desc("price"))`, `top(3, by=ps.desc("price *
    amount"))`."""
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
    """Build a top-n. Without a `time`, the input must end; `what` names the operation in messages."""
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
    """Build a union. Columns are matched by position and cast to their common type."""
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
    """Build a function over batches. `name` identifies the function in a checkpoint; the default is its qualified
    name."""
    fields = schema if isinstance(schema, pa.Schema) else pa.schema([(n, arrow_type(t)) for n, t in schema.items()])
    kept = time_kept(node, fields.names) if isinstance(time, Usual) else time
    return MapBatches(node, BatchFunction(name or _name(function), function), normalise(fields), kept)


def _name(function: Callable[[pa.Table], pa.Table]) -> str:
    """Return the qualified name of the function, which identifies it in a checkpoint."""
    if not hasattr(function, "__qualname__"):
        raise QueryError(
            "a function over batches needs a name",
            detail=f"{type(function).__name__} objects have none",
            hint='give it one: map_batches(..., name="clean")',
        )
    return f"{function.__module__}.{function.__qualname__}"


def in_order_node(node: Node, by: str | Sequence[str], time: str | None = None) -> InOrder:
    """Build a node that outputs rows in order of time; with columns `by`, per combination of their values."""
    columns = (by,) if isinstance(by, str) else tuple(by)
    return InOrder(node, chosen_time(node, time, "an order"), columns)


def checked(node: Node) -> Node:
    """Return `node` after checking that it can be planned."""
    _check_size(node)
    node_schema(node)
    return node


def _check_size(node: Node) -> None:
    """Check that the plan is neither too deep nor too large to traverse."""
    height, count = measured(node)
    if height > MAX_HEIGHT:
        raise QueryError(
            f"the stream has more than {MAX_HEIGHT} operators in a row",
            hint="combine conditions with &, and columns in one select or with_columns",
        )
    if count > MAX_NODES:
        raise QueryError(
            f"the stream has more than {MAX_NODES} operators",
            detail="a stream that is read twice counts twice",
            hint="read streams less often, or write one to files and read it from there",
        )


def join_node(
    inputs: Sequence[Node],
    *,
    on: object,
    within: Within,
    names: tuple[tuple[str, ...], ...],
    kind: str = "inner",
    where: object | None = None,
    times: TimeNames = None,
    last_rows: tuple[int, int] | None = None,
) -> Join:
    """Build a join of the first input with each of the others."""
    if kind not in JOINS:
        raise QueryError(f"`{kind}` is not a kind of join", hint=did_you_mean(kind, JOINS))
    return Join(
        inputs=tuple(inputs),
        kind=kind,
        keys=_keys(inputs, on),
        times=_times(inputs, within, times),
        bands=_bands(inputs, within),
        condition=None if where is None else expression_of(where, [n for of in names for n in of], "where"),
        names=names,
        last_rows=last_rows,
    )


def prefixed_names(left: Node, right: Node, prefix: str) -> tuple[tuple[str, ...], ...]:
    """Return the column names of two inputs in their join: a column of `right` gets `prefix` if `left` has its name."""
    first = columns_of_node(left)
    taken, second = [*first, *columns_of_node(right)], []
    for name in columns_of_node(right):
        second.append(unique_name(f"{prefix}{name}", taken) if name in first else name)
        taken.append(second[-1])
    return first, tuple(second)


def numbered_names(inputs: Sequence[Node]) -> tuple[tuple[str, ...], ...]:
    """Return the column names of many inputs in their join; repeated names are numbered: `k`, `k_2`, `k_3`."""
    taken = {name for node in inputs for name in columns_of_node(node)}
    used: set[str] = set()
    named = []
    for node in inputs:
        own = {name: unique_name(name, taken) if name in used else name for name in columns_of_node(node)}
        used |= set(own.values())
        taken |= used
        named.append(tuple(own.values()))
    return tuple(named)


def _keys(inputs: Sequence[Node], on: object) -> tuple[tuple[Expr, ...], ...]:
    """Return the key of each input, cast to common types."""
    parts = [_key(part, inputs) for part in (on if isinstance(on, list) else [on])]
    cast = [_of_one_type(inputs, part) for part in parts]
    return tuple(tuple(part[i] for part in cast) for i in range(len(inputs)))


def _key(part: Any, inputs: Sequence[Node]) -> tuple[Expr, ...]:
    """Return one part of the key as an expression per input: a tuple gives one for each, any other value is used for
    all."""
    each = part if isinstance(part, tuple) else (part,) * len(inputs)
    if len(each) != len(inputs):
        raise QueryError(
            "a part of the key needs one expression for each input of the join",
            detail=f"{part!r} has {len(each)}, the join has {len(inputs)} inputs",
            hint='write on="k", on=["k", "day"], on=("left_name", "right_name") or a list of such pairs',
        )
    return tuple(expression_of(key, columns_of_node(node), "on") for key, node in zip(each, inputs, strict=True))


def _of_one_type(inputs: Sequence[Node], part: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """Cast one part of the key to the common type of all inputs."""
    schemas = [node_schema(node) for node in inputs]
    types = [type_of(key, schema) for schema, key in zip(schemas, part, strict=True)]
    wanted = common_type(types, "the keys of a join")
    return tuple(cast_to(key, type_, wanted) for key, type_ in zip(part, types, strict=True))


def _times(inputs: Sequence[Node], within: Within, times: TimeNames) -> tuple[str, ...]:
    """Return the time column of each input."""
    wanted = times or ((WINDOW_START,) if within == WINDOW else (None,)) * len(inputs)
    if len(wanted) != len(inputs):
        raise QueryError(
            "`times` names a time for each input of the join",
            detail=f"it is {times!r}, and the join has {len(inputs)} inputs",
            hint='write it as in times=("ts", "right_ts"); None stands for the default time of an input',
        )
    return tuple(chosen_time(node, name, "a join") for node, name in zip(inputs, wanted, strict=True))


def _bands(inputs: Sequence[Node], within: Within) -> tuple[Band, ...]:
    """Return the bands of a join: each later input within the same band of the first."""
    match within:
        case None:
            return ()
        case "window":
            before = after = 0
        case (earlier, later):
            before, after = _reach(inputs, earlier), _reach(inputs, later)
        case both:
            before = after = _reach(inputs, both)
    return tuple(Band(0, i, before, after) for i in range(1, len(inputs)))


def _reach(inputs: Sequence[Node], within: Length) -> int:
    length = as_length(within, "`within` of a join")
    return length_over(length, time_type(inputs[0]), "`within` of a join")
