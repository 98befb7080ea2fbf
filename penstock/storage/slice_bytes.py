"""Which bytes of a run file some of its rows lie in.

A run is one record batch, column behind column, so the rows of a slice are one stretch of every buffer. Where values
differ in length, the stretch of offsets must be there before that of the values can be told.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Span = tuple[int, int]  # addresses in memory: from the first to before the last


def is_flat(table: pa.Table) -> bool:
    """Whether its rows can be told apart in its buffers."""
    return all(column.num_chunks == 1 and _kind(column.type) for column in table.columns)


def _kind(kind: pa.DataType) -> str:
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
    """The bytes that can be told without looking at any value."""
    if rows.start == rows.stop:
        return
    for column in table.columns:
        yield from _of_column(column.chunk(0), rows)


def _of_column(array: pa.Array, rows: slice) -> Iterator[Span]:
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


def _bits(buffer: pa.Buffer, rows: slice, width: int) -> Span:
    first, end = rows.start * width // 8, -(-rows.stop * width // 8)
    return buffer.address + first, buffer.address + min(end, buffer.size)


def offsets_fit(table: pa.Table, rows: slice) -> bool:
    """Tell whether the offsets of some rows, which are here, never go down nor beyond the values."""
    for column in table.columns:
        kind = _kind(column.type)
        if kind.startswith("offsets") and rows.start < rows.stop:
            _, offsets, values = column.chunk(0).buffers()
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


def _places(offsets: pa.Buffer, kind: str) -> npt.NDArray[np.signedinteger]:
    return np.frombuffer(offsets, np.dtype(np.int32 if kind == "offsets of 4" else np.int64))


def spans_by_offsets(table: pa.Table, rows: slice) -> Iterator[Span]:
    """The bytes of values that differ in length, once the first ones are there."""
    for column in table.columns:
        kind = _kind(column.type)
        if kind.startswith("offsets") and rows.start < rows.stop:
            _, offsets, values = column.chunk(0).buffers()
            places = _places(offsets, kind)
            if values is not None:
                yield values.address + int(places[rows.start]), values.address + int(places[rows.stop])
