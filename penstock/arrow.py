"""Arrow with types: names for what is known only at run time, and calls that the stubs describe too narrowly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    AnyArray: TypeAlias = pa.Array[Any]
    AnyChunked: TypeAlias = pa.ChunkedArray[Any]
    AnyDictionary: TypeAlias = pa.DictionaryArray[Any, Any]
    AnyField: TypeAlias = pa.Field[Any]
    AnyList: TypeAlias = pa.ListArray[Any]
    AnyScalar: TypeAlias = pa.Scalar[Any]
else:  # only the stubs make these classes generic
    AnyArray, AnyChunked, AnyDictionary = pa.Array, pa.ChunkedArray, pa.DictionaryArray
    AnyField, AnyList, AnyScalar = pa.Field, pa.ListArray, pa.Scalar
ResultFormat: TypeAlias = Literal["parquet", "arrow"]
Compression: TypeAlias = Literal["lz4", "snappy", "zstd", "none"]
_Number = TypeVar("_Number", bound=np.generic)


def schema_of(columns: Mapping[str, pa.DataType]) -> pa.Schema:
    """Return a schema with these columns, all nullable."""
    return pa.schema(columns)


def type_in(schema: pa.Schema, column: str | int) -> pa.DataType:
    """Return the type of a column."""
    return cast(pa.DataType, schema.field(column).type)


def as_lists(array: AnyArray) -> AnyList:
    """Return `array`, which holds lists, under its own class."""
    return cast(AnyList, array)


def as_structs(array: AnyArray) -> pa.StructArray:
    """Return `array`, which holds structs, under its own class."""
    return cast(pa.StructArray, array)


def as_texts(array: AnyArray) -> pa.StringArray:
    """Return `array`, which holds strings, under its own class."""
    return cast(pa.StringArray, array)


def lists_of(offsets: AnyArray, values: AnyArray, valid_in: AnyArray) -> AnyArray:
    """Return lists of `values` that begin at `offsets`, null where `valid_in` is."""
    return cast(AnyArray, pa.ListArray.from_arrays(cast(pa.Int32Array, offsets), values, mask=valid_in.is_null()))


def maps_of(offsets: AnyArray, keys: AnyArray, items: AnyArray, valid_in: AnyArray) -> AnyArray:
    """Return maps of `keys` to `items` that begin at `offsets`, null where `valid_in` is."""
    # The stubs know neither offsets of 32 bits, which maps have, nor the mask.
    made = pa.MapArray.from_arrays(offsets, keys, items, mask=valid_in.is_null())  # type: ignore[call-overload]
    return cast(AnyArray, made)


def nulls(count: int, type_: pa.DataType) -> AnyArray:
    """Return `count` nulls of a type."""
    # The stubs have an overload for each type, and none for a type that is known only at run time.
    return cast(AnyArray, pa.nulls(count, type_))  # type: ignore[call-overload]


def where(mask: npt.NDArray[np.bool_], values: AnyArray | AnyScalar) -> AnyArray:
    """Return the values where the mask is true, and null elsewhere."""
    return cast(AnyArray, pc.if_else(pa.array(mask), values, pa.scalar(None, values.type)))


def joined_texts(parts: Sequence[AnyArray | str], by: str = "") -> AnyArray:
    """Return the texts of each row side by side; a plain string is the same in every row."""
    # The stubs know no plain strings here.
    return cast(AnyArray, pc.binary_join_element_wise(*parts, by))  # type: ignore[call-overload]


def arrow_buffer(values: npt.NDArray[Any]) -> pa.Buffer:
    """Return the memory of `values` as an Arrow buffer, without a copy."""
    return pa.py_buffer(cast(bytes, values))  # before Python 3.12 no type says that an array has a buffer


def numbers_in(buffer: pa.Buffer | None, dtype: type[_Number]) -> npt.NDArray[_Number]:
    """Return the numbers in an Arrow buffer, without a copy; none if it is missing."""
    return np.frombuffer(cast(bytes, buffer or b""), dtype)
