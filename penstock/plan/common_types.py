"""The type that values of several types are brought to before they are compared or stand in one column."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from penstock.errors import QueryError
from penstock.expr.evaluate.scalar import result_schema
from penstock.expr.tree import Call, Cast, Column, Expr, Named
from penstock.types import sql_type


def type_of(expression: Expr, schema: pa.Schema) -> pa.DataType:
    """The type of an expression over rows of this schema."""
    return result_schema(schema, (Named("value", expression),)).field(0).type


def common_type(types: Sequence[pa.DataType], what: str) -> pa.DataType:
    """The one type that all of these become without a cast being written, as DuckDB has it; an error, about `what`,
    where there is none."""
    if len(set(types)) == 1:
        return types[0]
    if len(set(map(_family, types))) > 1:
        names = " and ".join(dict.fromkeys(map(sql_type, types)))
        raise QueryError(f"{what} have types that cannot be compared", detail=names, hint="cast one of them")
    schema = pa.schema([(f"c{i}", type_) for i, type_ in enumerate(types)])
    return type_of(Call("coalesce", tuple(map(Column, schema.names))), schema)


def _family(type_: pa.DataType) -> str:
    """Types of one family have a common one."""
    if pa.types.is_integer(type_) or pa.types.is_floating(type_) or pa.types.is_decimal(type_):
        return "number"
    if pa.types.is_date(type_) or pa.types.is_timestamp(type_):
        return "time"
    return str(type_)


def cast_to(expression: Expr, has: pa.DataType, wanted: pa.DataType) -> Expr:
    """The expression itself, if it has the type."""
    return expression if has.equals(wanted) else Cast(expression, sql_type(wanted))
