"""Schemas and columns: the column types that a stream may have, and the conversion of other types to them.

Times are 64-bit integers inside the engine: microseconds since 1970 for a TIMESTAMP, the value itself for a BIGINT.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import count
from typing import Any, TypeGuard, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.arrow import AnyArray, AnyChunked, AnyField, as_lists, as_structs, lists_of, maps_of, nulls
from penstock.errors import QueryError, SourceError, did_you_mean
from penstock.type_names import TIMESTAMP, sql_type


def _normal_type(arrow: pa.DataType) -> pa.DataType:
    """Return the type that the engine uses for values of a type."""
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
    if t.is_struct(arrow):
        return pa.struct([pa.field(field.name, _normal_type(field.type)) for field in arrow])
    if t.is_map(arrow):
        return pa.map_(_normal_type(arrow.key_type), _normal_type(arrow.item_type))
    if _is_list(arrow):
        return pa.list_(_normal_type(arrow.value_type))
    return pa.date32() if t.is_date64(arrow) else arrow


def normalise(schema: pa.Schema) -> pa.Schema:
    """Return the schema that the engine uses for data of this schema: plain types, no metadata, times in microseconds
    UTC."""
    return pa.schema([pa.field(f.name, _normal_type(f.type)) for f in schema])


def conform(table: pa.Table, schema: pa.Schema, where: str = "the input", *, lenient: bool = False) -> pa.Table:
    """Return the columns of `schema`, cast to its types. Raises SourceError, naming the column, for a value that does
    not fit, and for a missing column; with `lenient` a missing column is null."""
    columns = [_conform_column(table, field, where, lenient) for field in schema]
    return pa.table(columns, schema=schema) if columns else table.select([])


def _conform_column(table: pa.Table, field: AnyField, where: str, lenient: bool) -> AnyChunked:
    path = column_path(table.schema, field.name, where)
    if path is None and not lenient:
        raise missing_column(field.name, table.column_names, where)
    if path is None:
        return pa.chunked_array([pa.nulls(table.num_rows, field.type)])
    column = table.column(path[0]) if len(path) == 1 else pc.struct_field(table.column(path[0]), path[1:])
    if column.type.equals(field.type):
        return column
    try:
        return pa.chunked_array(
            [fitted(chunk, field.type, (field.name, where), lenient) for chunk in column.chunks], field.type
        )
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise SourceError(
            f"column `{field.name}` of {where} does not fit its declared type {sql_type(field.type)}",
            detail=f"it is {column.type}: {error}",
            hint="declare the type the data has, or cast in the query",
        ) from error


def column_path(fields: pa.Schema | pa.StructType, name: str, where: str) -> list[int] | None:
    """Return where the column `name` is: its index, or for a dotted name the indexes of the nested fields; None if
    there is no such column. Case matters only between names that differ in nothing else."""
    names = [field.name for field in fields]
    if (place := place_of(name, names, where)) is not None:
        return [place]
    head, _, rest = name.partition(".")
    place = place_of(head, names, where) if rest else None
    if place is None or not pa.types.is_struct(fields.field(place).type):
        return None
    below = column_path(fields.field(place).type, rest, where)
    return None if below is None else [place, *below]


def place_of(name: str, names: Sequence[str], where: str) -> int | None:
    """Return the index of a name, exact or else ignoring case; None if there is none. Raises SourceError if several
    match."""
    exact = [i for i, other in enumerate(names) if other == name]
    found = exact or [i for i, other in enumerate(names) if other.lower() == name.lower()]
    if len(found) > 1:
        several = " and ".join(f"`{names[i]}`" for i in found)
        raise SourceError(
            f"{where} has several columns `{name}`",
            detail=f"{several} differ only in case" if not exact else f"{len(exact)} columns have this name",
            hint="give each column a different name, or declare the columns without it",
        )
    return found[0] if found else None


def missing_column(name: str, names: Sequence[str], where: str) -> SourceError:
    """Return the error for rows without a column."""
    return SourceError(f"column `{name}` is missing in {where}", hint=did_you_mean(name, names))


def fitted(array: AnyArray, type_: pa.DataType, place: tuple[str, str], lenient: bool) -> AnyArray:
    """Cast values to a type, fields of structs by name; `place` is the column and where it is, for messages."""
    t = pa.types
    if array.type.equals(type_):
        return array
    if t.is_struct(type_) and t.is_struct(array.type):
        return _fitted_struct(array, type_, place, lenient)
    if t.is_list(type_) and _is_list(array.type):
        offsets, values = _unfolded(array.cast(pa.list_(array.type.value_type)))
        return lists_of(offsets, fitted(values, type_.value_type, place, lenient), array)
    if t.is_map(type_) and t.is_map(array.type):
        entries = pa.struct([("key", array.type.key_type), ("value", array.type.item_type)])
        offsets, pairs = _unfolded(array.cast(pa.list_(entries)))
        wanted = (type_.key_type, type_.item_type)
        keys, items = (
            fitted(part, to, place, lenient) for part, to in zip(as_structs(pairs).flatten(), wanted, strict=True)
        )
        return maps_of(offsets, keys, items, array)
    if t.is_timestamp(array.type) and array.type.unit == "ns":
        return pc.cast(array, type_, safe=False)  # truncates to microseconds
    return pc.cast(array, type_)


def _fitted_struct(array: AnyArray, type_: pa.StructType, place: tuple[str, str], lenient: bool) -> AnyArray:
    """Cast the fields of structs by name; with `lenient` a missing field is null."""
    column, where = place
    parts = []
    children = as_structs(array).flatten()  # a field of a null is null
    for field in type_:
        at = place_of(field.name, [f.name for f in array.type], where)
        below = f"{column}.{field.name}"
        if at is None and not lenient:
            raise missing_column(below, [f"{column}.{f.name}" for f in array.type], where)
        part = nulls(len(array), field.type) if at is None else children[at]
        parts.append(fitted(part, field.type, (below, where), lenient))
    return pa.StructArray.from_arrays(parts, fields=list(type_), mask=array.is_null())


def _unfolded(lists: AnyArray) -> tuple[AnyArray, AnyArray]:
    """Return the offsets of lists and their values, without the values under nulls."""
    lengths = pc.list_value_length(lists).fill_null(0).to_numpy()
    return pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32()), as_lists(lists).flatten()


def _is_list(arrow: pa.DataType) -> TypeGuard[pa.ListType[Any]]:
    t = pa.types
    plain = t.is_list(arrow) or t.is_large_list(arrow) or t.is_fixed_size_list(arrow)
    return bool(plain or t.is_list_view(arrow) or t.is_large_list_view(arrow))


def require_column(schema: pa.Schema, name: str, context: str) -> AnyField:
    """Return the field called `name`. Raises QueryError, with a suggestion, if there is none."""
    if name not in schema.names:
        head, _, field = name.partition(".")
        if field and head in schema.names and pa.types.is_struct(schema.field(head).type):
            hint = f'write ps.col("{head}").field("{field}"), or declare the column as `{name}`'
        else:
            hint = did_you_mean(name, schema.names)
        raise QueryError(f"unknown column `{name}` in {context}", hint=hint)
    return schema.field(name)


def is_time_type(arrow: pa.DataType) -> bool:
    """Return whether a column of this type can be a time."""
    return bool(pa.types.is_timestamp(arrow) or pa.types.is_int64(arrow))


def time_values(column: AnyChunked | AnyArray) -> npt.NDArray[np.int64]:
    """Return the 64-bit integers of a time column, which must have no nulls."""
    return np.asarray(column.cast(pa.int64(), safe=False).to_numpy(), dtype=np.int64)


def time_array(values: npt.NDArray[np.int64], type_: pa.DataType) -> AnyArray:
    """Return a time column from 64-bit integers: the inverse of `time_values`."""
    return pa.array(np.ascontiguousarray(values), pa.int64()).cast(type_, safe=False)


def unique_name(name: str, taken: Collection[str]) -> str:
    """Return `name`, or `name` with the first suffix _2, _3, ... that is not taken."""
    if name not in taken:
        return name
    return next(numbered for i in count(2) if (numbered := f"{name}_{i}") not in taken)


def as_array(column: AnyArray | AnyChunked) -> AnyArray:
    """Return the column as one array. Copies only if it has several chunks."""
    if isinstance(column, pa.ChunkedArray):
        # The stubs take a chunk for another column.
        return cast(AnyArray, column.chunk(0)) if column.num_chunks == 1 else column.combine_chunks()
    return column


def row_numbers(positions: npt.NDArray[np.integer]) -> pa.Int64Array:
    """Return positions of rows as an Arrow array, for several calls of `take`."""
    return cast(pa.Int64Array, pa.array(positions))
