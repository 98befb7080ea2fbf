"""The type that values of several types are brought to before they are compared or stand in one column."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from penstock.errors import QueryError
from penstock.expressions import Call, Cast, Column, Expr, Named
from penstock.operators.scalar import result_schema
from penstock.schema import sql_type


def type_of(expression: Expr, schema: pa.Schema) -> pa.DataType:
    """The type of an expression over rows of this schema."""
    return result_schema(schema, (Named("value", expression),)).field(0).type


def common_type(types: Sequence[pa.DataType], what: str) -> pa.DataType:
    """The one type that all of these become without a cast being written, as DuckDB has it."""
    if len(set(types)) == 1:
        return types[0]
    schema = pa.schema([(f"c{i}", type_) for i, type_ in enumerate(types)])
    try:
        return type_of(Call("coalesce", tuple(map(Column, schema.names))), schema)
    except QueryError as error:
        names = " and ".join(dict.fromkeys(map(sql_type, types)))
        raise QueryError(f"{what} {names}", hint="cast one side, as in CAST(x AS VARCHAR)") from error


def cast_to(expression: Expr, has: pa.DataType, wanted: pa.DataType) -> Expr:
    return expression if has == wanted else Cast(expression, sql_type(wanted))
