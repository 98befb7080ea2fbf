"""The addresses of rows in the buffers of a table: which bytes of a mapped file some rows are in."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.arrow import AnyArray, numbers_in
from penstock.types import as_array

Span = tuple[int, int]  # addresses in memory: [first, end)


def is_flat(table: pa.Table) -> bool:
    """Return whether the bytes of single rows can be located in the buffers of a table."""
    return all(column.num_chunks == 1 and _kind(column.type) for column in table.columns)


def _kind(kind: pa.DataType) -> str:
    """Return how values of a type are laid out; empty for nested and other types."""
    if pa.types.is_null(kind):
        return "nothing"
    if pa.types.is_primitive(kind) or pa.types.is_decimal(kind) or pa.types.is_fixed_size_binary(kind):
        return "fixed"
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return "offsets of 4"
    if pa.types.is_large_string(kind) or pa.types.is_large_binary(kind):
        return "offsets of 8"
    return ""


def spans_at_once(table: pa.Table, rows: slice) -> Iterator[Span]:
    """Yield the address ranges of some rows that can be computed without reading a value: validity, fixed-width values,
    offsets."""
    if rows.start == rows.stop:
        return
    for column in table.columns:
        yield from _of_column(as_array(column), rows)


def _of_column(array: AnyArray, rows: slice) -> Iterator[Span]:
    """Yield the address ranges of some rows of an array, without values of variable length."""
    buffers = array.buffers()
    if buffers[0] is not None:
        yield _bits(buffers[0], rows, 1)
    match _kind(array.type):
        case "fixed":
            yield _bits(buffers[1], rows, array.type.bit_width)
        case "offsets of 4":
            yield _bits(buffers[1], slice(rows.start, rows.stop + 1), 32)
        case "offsets of 8":
            yield _bits(buffers[1], slice(rows.start, rows.stop + 1), 64)


def _bits(buffer: pa.Buffer | None, rows: slice, width: int) -> Span:
    """Return the address range of some rows in a buffer of `width` bits per row."""
    assert buffer is not None
    first, end = rows.start * width // 8, -(-rows.stop * width // 8)
    return buffer.address + first, buffer.address + min(end, buffer.size)


def offsets_fit(table: pa.Table, rows: slice) -> bool:
    """Return whether the offsets of some rows, which must be present, ascend and stay within the values."""
    for column in table.columns:
        kind = _kind(column.type)
        if kind.startswith("offsets") and rows.start < rows.stop:
            _, offsets, values = as_array(column).buffers()
            places = _places(offsets, kind)[rows.start : rows.stop + 1]
            size = 0 if values is None else values.size
            if (
                len(places) <= rows.stop - rows.start
                or places[0] < 0
                or places[-1] > size
                or (np.diff(places) < 0).any()
            ):
                return False
    return True


def _places(offsets: pa.Buffer | None, kind: str) -> npt.NDArray[np.signedinteger]:
    """Return the offsets as an array."""
    return numbers_in(offsets, np.int32) if kind == "offsets of 4" else numbers_in(offsets, np.int64)


def spans_by_offsets(table: pa.Table, rows: slice) -> Iterator[Span]:
    """Yield the address ranges of values of variable length. Requires that the offsets are present."""
    for column in table.columns:
        kind = _kind(column.type)
        if kind.startswith("offsets") and rows.start < rows.stop:
            _, offsets, values = as_array(column).buffers()
            places = _places(offsets, kind)
            if values is not None:
                yield values.address + int(places[rows.start]), values.address + int(places[rows.stop])
