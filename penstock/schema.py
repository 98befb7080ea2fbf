"""Schemas: which column types a stream may have, how SQL spells them, and how foreign types are brought to them.

Times are 64-bit integers inside the engine: microseconds since 1970 for a TIMESTAMP, the value itself for a BIGINT.
"""

from __future__ import annotations

import re

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import QueryError, SourceError, did_you_mean

TIMESTAMP = pa.timestamp("us")

SQL_TYPES: dict[str, pa.DataType] = {
    "BOOLEAN": pa.bool_(),
    "TINYINT": pa.int8(),
    "SMALLINT": pa.int16(),
    "INTEGER": pa.int32(),
    "BIGINT": pa.int64(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "VARCHAR": pa.string(),
    "BLOB": pa.binary(),
    "DATE": pa.date32(),
    "TIMESTAMP": TIMESTAMP,
}
_ALIASES = {
    "BOOL": "BOOLEAN", "INT": "INTEGER", "INT4": "INTEGER", "INT8": "BIGINT", "LONG": "BIGINT", "SHORT": "SMALLINT",
    "REAL": "FLOAT", "FLOAT4": "FLOAT", "FLOAT8": "DOUBLE", "DOUBLE PRECISION": "DOUBLE", "TEXT": "VARCHAR",
    "STRING": "VARCHAR", "CHAR": "VARCHAR", "BYTEA": "BLOB", "BINARY": "BLOB", "VARBINARY": "BLOB",
    "DATETIME": "TIMESTAMP",
}  # fmt: skip
_DECIMAL = re.compile(r"(?:DECIMAL|NUMERIC)(?:\s*\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\))?")


def arrow_type(sql_type: str) -> pa.DataType:
    """The Arrow type of a SQL type name; lengths as in VARCHAR(20) are accepted and ignored."""
    name = " ".join(sql_type.upper().split())
    if match := _DECIMAL.fullmatch(name):
        return pa.decimal128(int(match[1] or 18), int(match[2] or 0 if match[1] else 3))
    name = re.sub(r"\s*\(.*\)$", "", name)
    name = _ALIASES.get(name, name)
    if name not in SQL_TYPES:
        raise QueryError(f"unknown type `{sql_type}`", hint=did_you_mean(name, [*SQL_TYPES, "DECIMAL(18, 3)"]))
    return SQL_TYPES[name]


def sql_type(arrow: pa.DataType) -> str:
    """The SQL name of a type of a normalised schema."""
    if pa.types.is_decimal(arrow):
        return f"DECIMAL({arrow.precision}, {arrow.scale})"
    for name, known in SQL_TYPES.items():
        if known.equals(arrow):
            return name
    return str(arrow).upper()


def _normal_type(arrow: pa.DataType) -> pa.DataType:
    t = pa.types
    if t.is_dictionary(arrow):
        return _normal_type(arrow.value_type)
    if t.is_timestamp(arrow):
        return TIMESTAMP
    if t.is_large_string(arrow) or t.is_string_view(arrow):
        return pa.string()
    if t.is_large_binary(arrow) or t.is_binary_view(arrow) or t.is_fixed_size_binary(arrow):
        return pa.binary()
    if t.is_unsigned_integer(arrow):
        return {8: pa.int16(), 16: pa.int32(), 32: pa.int64(), 64: pa.int64()}[arrow.bit_width]
    if t.is_float16(arrow):
        return pa.float32()
    return pa.date32() if t.is_date64(arrow) else arrow


def normalise(schema: pa.Schema) -> pa.Schema:
    """The schema the engine uses for data of this schema: plain, without metadata, times in microseconds UTC."""
    return pa.schema([pa.field(f.name, _normal_type(f.type)) for f in schema])


def conform(table: pa.Table, schema: pa.Schema, where: str = "the input") -> pa.Table:
    """The columns of `schema`, cast to its types; a value that does not fit is an error that names the column."""
    columns = [_conform_column(table, field, where) for field in schema]
    return pa.table(columns, schema=schema) if columns else table.select([])


def _conform_column(table: pa.Table, field: pa.Field, where: str) -> pa.ChunkedArray:
    if field.name not in table.column_names:
        raise SourceError(
            f"column `{field.name}` is missing in {where}", hint=did_you_mean(field.name, table.column_names)
        )
    column = table.column(field.name)
    if column.type.equals(field.type):
        return column
    try:
        if pa.types.is_timestamp(column.type) and column.type.unit == "ns":
            return pc.cast(column, field.type, safe=False)  # below a microsecond is cut off, downwards or not
        return pc.cast(column, field.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise SourceError(
            f"column `{field.name}` of {where} does not fit its declared type {sql_type(field.type)}",
            detail=f"it is {column.type}: {error}",
            hint="declare the type the data has, or cast in the query",
        ) from error


def require_column(schema: pa.Schema, name: str, context: str) -> pa.Field:
    """The field called `name`, or an error with a suggestion."""
    if name not in schema.names:
        raise QueryError(f"unknown column `{name}` in {context}", hint=did_you_mean(name, schema.names))
    return schema.field(name)


def is_time_type(arrow: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(arrow) or pa.types.is_int64(arrow))


def time_values(column: pa.ChunkedArray | pa.Array) -> npt.NDArray[np.int64]:
    """The 64-bit integers of a time column that has no nulls."""
    return np.asarray(column.cast(pa.int64(), safe=False).to_numpy(), dtype=np.int64)


def time_array(values: npt.NDArray[np.int64], type_: pa.DataType) -> pa.Array:
    """The inverse of `time_values`."""
    return pa.array(np.ascontiguousarray(values), pa.int64()).cast(type_, safe=False)
