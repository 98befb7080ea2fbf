"""The columns of a theta join: those of its inputs, state and result."""

from __future__ import annotations

import pyarrow as pa

from penstock.errors import QueryError
from penstock.expr.tree import Expr
from penstock.expr.walk import columns_of
from penstock.type_names import sql_type
from penstock.types import is_time_type, require_column

Schemas = tuple[pa.Schema, pa.Schema]
Payload = tuple[tuple[str, ...], tuple[str, ...]]


def check_inputs(schemas: Schemas, times: tuple[str, str], payload: Payload) -> None:
    """Raise QueryError unless the times are times and the result columns exist."""
    for schema, time, names in zip(schemas, times, payload, strict=True):
        found = require_column(schema, time, "the times of a join")
        if not is_time_type(found.type):
            hint = "use a TIMESTAMP or a BIGINT column"
            raise QueryError(f"a join cannot use `{time}` as a time", detail=sql_type(found.type), hint=hint)
        for name in names:
            require_column(schema, name, "the result of a join")


def result_schema(schemas: Schemas, payload: Payload) -> pa.Schema:
    """Return the schema of the result: the result columns of both inputs."""
    return pa.schema([schema.field(name) for schema, names in zip(schemas, payload, strict=True) for name in names])


def stored_columns(schema: pa.Schema, payload: tuple[str, ...], condition: Expr | None) -> list[str]:
    """Return the columns of an input that the result or the condition needs."""
    needed = {*payload, *(() if condition is None else columns_of(condition))}
    return [name for name in schema.names if name in needed]


def output_time(time: str, payload: tuple[str, ...]) -> str:
    """Return the name of a time in the result; empty if the result does not contain it."""
    return time if time in payload else ""
