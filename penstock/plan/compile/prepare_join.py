"""Joins: the columns of each port, and the operator for the keys and the bands."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

from penstock.errors import QueryError
from penstock.expr.evaluate.scalar import check_predicate
from penstock.expr.tree import Column, Named
from penstock.operators.band_join.join import BandJoin
from penstock.operators.bands import leads
from penstock.operators.protocol import Operator
from penstock.operators.theta_join.join import GridJoin
from penstock.operators.theta_join.last_rows import LastRowsJoin
from penstock.plan.compile.flow import CompiledStream, Joint
from penstock.plan.compile.numbering import numbered
from penstock.plan.compile.prepare import Prepared, closing_by, computed, following
from penstock.plan.logical import JOINS, Join
from penstock.plan.options import CompileOptions
from penstock.plan.program import ROW_NUMBER, Following
from penstock.type_names import sql_type


def prepare_join(node: Join, below: Sequence[CompiledStream], options: CompileOptions) -> Prepared:
    """Return the subquery of a join. Raises QueryError if the join is not valid."""
    _check(node, below)
    tracks = tuple(
        following(stream, time, first=i) for i, (stream, time) in enumerate(zip(below, node.times, strict=True))
    )
    given = below if node.last_rows is None else [numbered(stream) for stream in below]
    streams = tuple(computed(stream, _columns(node, i, below[i])) for i, stream in enumerate(given))
    _check_result(node, streams)
    operator = _operator(node, below, streams, options)
    numbers = None if node.last_rows is None else ROW_NUMBER
    closings = tuple(map(closing_by, _times(node, below)))
    return Prepared(operator, streams, tracks, closings, numbers, _joint(node, below))


def _operator(
    node: Join, below: Sequence[CompiledStream], streams: Sequence[CompiledStream], options: CompileOptions
) -> Operator:
    """Return a join over the last rows, a theta join (without keys), or a band join."""
    schemas: Any = tuple(stream.schema for stream in streams)
    times: Any = _times(node, below)
    names: Any = node.names
    grid: Any = {"grid": options.grid or (1, 1), "follows_sites": options.grid is None}
    if node.last_rows is not None:
        return LastRowsJoin(schemas, times, names, node.last_rows, node.condition, **grid)
    if not node.keys[0]:
        return GridJoin(schemas, times, names, node.bands, node.condition, **grid)
    keys = tuple(tuple(_key_names(node, i, stream)) for i, stream in enumerate(below))
    _check_key_types(schemas, keys)
    return BandJoin(node.kind, schemas, keys, times, node.names, node.bands, node.condition, options.hash_bits)


def _columns(node: Join, port: int, stream: CompiledStream) -> list[Named]:
    """Return the columns that a port gets: all of its input under their new names, and the keys that are not among
    them."""
    columns = [Named(new, Column(old)) for new, old in zip(node.names[port], stream.schema.names, strict=True)]
    named = zip(_key_names(node, port, stream), node.keys[port], strict=True)
    keys = [Named(name, key) for name, key in named if name.startswith("#key.")]
    number = [Named(ROW_NUMBER, Column(ROW_NUMBER))] if node.last_rows is not None else []
    return [*columns, *keys, *number]


def _key_names(node: Join, port: int, stream: CompiledStream) -> list[str]:
    """Return the names of the keys of a port: for a column of the input its name in the result, otherwise `#key.` and a
    number."""
    known = dict(zip(stream.schema.names, node.names[port], strict=True))
    return [
        known[key.name] if isinstance(key, Column) and key.name in known else f"#key.{i}"
        for i, key in enumerate(node.keys[port])
    ]


def _times(node: Join, below: Sequence[CompiledStream]) -> tuple[str, ...]:
    """Return the times of the inputs under their names in the result."""
    return tuple(
        names[stream.schema.names.index(time)]
        for names, stream, time in zip(node.names, below, node.times, strict=True)
    )


def _joint(node: Join, below: Sequence[CompiledStream]) -> Joint | None:
    """Return the joint progress of an inner join, whose marks are those on each time separately, followed by the joint
    ones; None for other joins."""
    count = len(below)
    if node.kind != "inner" or node.last_rows is not None:
        return None
    return Joint(_times(node, below), tuple(Following(count + i) for i in range(count)), leads(count, node.bands))


def _check(node: Join, below: Sequence[CompiledStream]) -> None:
    if node.kind not in JOINS:
        raise QueryError(f"`{node.kind}` is not a kind of join", hint=f"one of {', '.join(JOINS)}")
    if node.kind != "inner" and len(below) != 2:
        raise QueryError(
            f"a {node.kind} join has two inputs",
            detail=f"this one has {len(below)}",
            hint="join two at a time; only inner joins take more",
        )
    if node.kind != "inner" and not node.keys[0]:
        raise QueryError(f"a {node.kind} join needs an equality", hint="add `a.key = b.key` to its condition")
    names = [name for of_input in node.names for name in of_input]
    if twice := next((name for i, name in enumerate(names) if name in names[:i]), None):
        raise QueryError(f"two columns of the join are called `{twice}`", hint="give one of them another name")
    _check_times(node, below)


def _check_times(node: Join, below: Sequence[CompiledStream]) -> None:
    types = {
        sql_type(stream.schema.field(time).type)
        for stream, time in zip(below, node.times, strict=True)
        if time in stream.schema.names
    }
    if len(types) > 1:
        raise QueryError(
            "the times of a join must be of one type", detail=" and ".join(sorted(types)), hint="cast one in its source"
        )


def _check_result(node: Join, streams: Iterable[CompiledStream]) -> None:
    names = {name for of_input in node.names for name in of_input}
    fields = [field for stream in streams for field in stream.schema if field.name in names]
    if node.condition is not None:
        check_predicate(pa.schema(fields), node.condition)


def _check_key_types(schemas: Sequence[pa.Schema], keys: Sequence[Sequence[str]]) -> None:
    for names in zip(*keys, strict=True):
        types = {sql_type(schema.field(name).type) for schema, name in zip(schemas, names, strict=True)}
        if len(types) > 1:
            raise QueryError(
                "the keys of a join must be of one type",
                detail=f"{', '.join(f'`{name}`' for name in names)} are {' and '.join(sorted(types))}",
                hint="cast them to one type",
            )
