"""The columns of a theta join: of its inputs, of its state and of its result."""

from __future__ import annotations

import pyarrow as pa

from penstock.errors import QueryError
from penstock.expr.tree import Expr, columns_of
from penstock.types import is_time_type, require_column, sql_type

Schemas = tuple[pa.Schema, pa.Schema]
Payload = tuple[tuple[str, ...], tuple[str, ...]]


def check_inputs(schemas: Schemas, times: tuple[str, str], payload: Payload) -> None:
    """An error unless the times are times and the payload is there."""
    for schema, time, names in zip(schemas, times, payload, strict=True):
        found = require_column(schema, time, "the times of a join")
        if not is_time_type(found.type):
            hint = "use a TIMESTAMP or a BIGINT column"
            raise QueryError(f"a join cannot be within a band of `{time}`", detail=sql_type(found.type), hint=hint)
        for name in names:
            require_column(schema, name, "the result of a join")


def result_schema(schemas: Schemas, payload: Payload) -> pa.Schema:
    return pa.schema([schema.field(name) for schema, names in zip(schemas, payload, strict=True) for name in names])


def stored_columns(schema: pa.Schema, payload: tuple[str, ...], condition: Expr | None) -> list[str]:
    """The columns of an input that the result or the condition needs."""
    needed = {*payload, *(() if condition is None else columns_of(condition))}
    return [name for name in schema.names if name in needed]


def output_time(time: str, payload: tuple[str, ...]) -> str:
    """The name of a time in the result; empty if it is not there."""
    return time if time in payload else ""
