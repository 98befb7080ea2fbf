"""Common types: the type to which values of several types are cast before they are compared or stored in one column."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from penstock.arrow import type_in
from penstock.errors import QueryError
from penstock.expr.evaluate.scalar import result_schema
from penstock.expr.tree import Call, Cast, Column, Expr, Named
from penstock.type_names import sql_type


def type_of(expression: Expr, schema: pa.Schema) -> pa.DataType:
    """Return the type of an expression over rows of `schema`."""
    return type_in(result_schema(schema, (Named("value", expression),)), 0)


def common_type(types: Sequence[pa.DataType], what: str) -> pa.DataType:
    """Return the type to which all `types` are implicitly cast, as DuckDB does it. Raises QueryError, naming `what`, if
    there is none."""
    if len(set(types)) == 1:
        return types[0]
    if len(set(map(_family, types))) > 1:
        names = " and ".join(dict.fromkeys(map(sql_type, types)))
        raise QueryError(f"{what} have types that cannot be compared", detail=names, hint="cast one of them")
    schema = pa.schema([(f"c{i}", type_) for i, type_ in enumerate(types)])
    return type_of(Call("coalesce", tuple(map(Column, schema.names))), schema)


def _family(type_: pa.DataType) -> str:
    """Return the family of a type: types of one family have a common type."""
    if pa.types.is_integer(type_) or pa.types.is_floating(type_) or pa.types.is_decimal(type_):
        return "number"
    if pa.types.is_date(type_) or pa.types.is_timestamp(type_):
        return "time"
    return str(type_)


def cast_to(expression: Expr, has: pa.DataType, wanted: pa.DataType) -> Expr:
    """Return the expression with a cast to `wanted`, or unchanged if it has that type."""
    return expression if has.equals(wanted) else Cast(expression, sql_type(wanted))
