"""Join nodes from what users write: keys by name or in pairs, spans of time, clashing names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from penstock.api.lengths import Length, as_length, length_over
from penstock.api.sql_text import expression_of
from penstock.api.times import chosen_time
from penstock.errors import QueryError, did_you_mean
from penstock.expr.tree import Expr
from penstock.operators.bands import Band
from penstock.plan.common_types import cast_to, common_type, type_of
from penstock.plan.compile.subqueries import node_schema
from penstock.plan.logical import JOINS, Join, Node
from penstock.plan.naming import unique_name
from penstock.plan.schema import WINDOW_START, columns_of_node, time_type

Within = Length | tuple[Length, Length] | None
Times = tuple[str | None, ...] | None
WINDOW = "window"  # as `within`: rows of the same window


def join_node(
    inputs: Sequence[Node],
    *,
    on: object,
    within: Within,
    names: tuple[tuple[str, ...], ...],
    kind: str = "inner",
    where: object | None = None,
    times: Times = None,
    last_rows: tuple[int, int] | None = None,
) -> Join:
    """A join of the first input with each of the others."""
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
    """The names of two inputs in their join: the second one's get a prefix where the first has the same."""
    first = columns_of_node(left)
    taken, second = [*first, *columns_of_node(right)], []
    for name in columns_of_node(right):
        second.append(unique_name(f"{prefix}{name}", taken) if name in first else name)
        taken.append(second[-1])
    return first, tuple(second)


def numbered_names(inputs: Sequence[Node]) -> tuple[tuple[str, ...], ...]:
    """The names of many inputs in their join: `k`, `k_2`, `k_3`."""
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
    """The key of each input, cast where the inputs have different types."""
    parts = [_key(part, inputs) for part in (on if isinstance(on, list) else [on])]
    cast = [_of_one_type(inputs, part) for part in parts]
    return tuple(tuple(part[i] for part in cast) for i in range(len(inputs)))


def _key(part: Any, inputs: Sequence[Node]) -> tuple[Expr, ...]:
    """A part of the key, as an expression for each input: a tuple has one for each, anything else is for all."""
    each = part if isinstance(part, tuple) else (part,) * len(inputs)
    if len(each) != len(inputs):
        raise QueryError(
            "a part of the key needs one expression for each input of the join",
            detail=f"{part!r} has {len(each)}, the join has {len(inputs)} inputs",
            hint='write on="k", on=["k", "day"], on=("left_name", "right_name") or a list of such pairs',
        )
    return tuple(expression_of(key, columns_of_node(node), "on") for key, node in zip(each, inputs, strict=True))


def _of_one_type(inputs: Sequence[Node], part: tuple[Expr, ...]) -> tuple[Expr, ...]:
    schemas = [node_schema(node) for node in inputs]
    types = [type_of(key, schema) for schema, key in zip(schemas, part, strict=True)]
    wanted = common_type(types, "the keys of a join")
    return tuple(cast_to(key, type_, wanted) for key, type_ in zip(part, types, strict=True))


def _times(inputs: Sequence[Node], within: Within, times: Times) -> tuple[str, ...]:
    wanted = times or ((WINDOW_START,) if within == WINDOW else (None,)) * len(inputs)
    if len(wanted) != len(inputs):
        raise QueryError(
            "`times` names a time for each input of the join",
            detail=f"it is {times!r}, and the join has {len(inputs)} inputs",
            hint='write it as in times=("ts", "right_ts"); None stands for the usual time of an input',
        )
    return tuple(chosen_time(node, name, "a join") for node, name in zip(inputs, wanted, strict=True))


def _bands(inputs: Sequence[Node], within: Within) -> tuple[Band, ...]:
    """Every later input lies within the same band of the first."""
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
