"""Columns of different types that are to be compared or put below each other: the type that holds both."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from penstock.errors import QueryError
from penstock.expressions import Call, Cast, Column, Expr, Named
from penstock.operators.scalar import result_schema
from penstock.schema import sql_type


def common_type(types: Sequence[pa.DataType], what: str) -> pa.DataType:
    """The type that values of all these types can be cast to; an error where there is none."""
    if len(set(map(_family, types))) > 1:
        raise QueryError(
            f"{what} have types that cannot be compared",
            detail=" and ".join(dict.fromkeys(map(sql_type, types))),
            hint='cast one of them, as in ps.col("a").cast("VARCHAR")',
        )
    schema = pa.schema([(f"c{n}", type_) for n, type_ in enumerate(types)])
    either = Call("coalesce", tuple(Column(name) for name in schema.names))
    return result_schema(schema, [Named("either", either)]).field(0).type


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
