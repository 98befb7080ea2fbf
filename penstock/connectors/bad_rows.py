"""Malformed rows as a table, and the one rule that holds for every format: a row without a time is malformed."""

from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.connectors.source import BAD_ROWS_SCHEMA, ReadResult
from penstock.errors import printable
from penstock.shown import python_rows


def bad_table(file: str, lines: pa.Array, reasons: pa.Array, texts: pa.Array) -> pa.Table:
    """Malformed rows of one file; `lines` counts from 1, or is null where nobody counted."""
    files = pa.repeat(pa.scalar(printable(file)), len(lines))
    return pa.table([files, lines, reasons, texts], schema=BAD_ROWS_SCHEMA)


def null_time_reason(time: str) -> str:
    return f"`{time}` is null"


def divert_malformed(rows: pa.Table, time: str, file: str, rows_before: Callable[[], int]) -> ReadResult:
    """Rows of a binary file without those that have no time, or text that is not UTF-8: no writer of such files has to
    look, and functions of text fail on it. `rows_before` is asked only when there are some."""
    why = [_wrong_text(field.name, rows.column(field.name)) for field in rows.schema]
    if rows.column(time).null_count:
        missing = pc.is_null(rows.column(time)).combine_chunks()
        why.append(pc.if_else(missing, pa.scalar(null_time_reason(time)), pa.scalar(None, pa.string())))
    given = [reasons for reasons in why if reasons is not None]
    if not given:
        return ReadResult(rows)
    reasons = pc.coalesce(*given)
    malformed = pc.is_valid(reasons)
    lines = np.flatnonzero(np.asarray(malformed)) + 1 + rows_before()
    bad = bad_table(file, pa.array(lines), reasons.drop_null(), as_text(rows.filter(malformed)))
    return ReadResult(rows.filter(pc.invert(malformed)), bad)


def _wrong_text(name: str, column: pa.ChunkedArray) -> pa.Array | None:
    """Why values of a column are malformed, null where they are not; None where none is."""
    if not (pa.types.is_string(column.type) or pa.types.is_nested(column.type)):
        return None
    starts = np.cumsum([0, *(len(chunk) for chunk in column.chunks)])
    wrong = [int(start) + at for start, chunk in zip(starts, column.chunks, strict=False) for at in _invalid(chunk)]
    if not wrong:
        return None
    reasons = np.full(len(column), None, object)
    reasons[wrong] = f"`{name}` is not UTF-8"
    return pa.array(reasons, pa.string())


def _invalid(array: pa.Array) -> list[int]:
    """The places of values with text that is not UTF-8, by halving."""
    if _is_valid(array):
        return []
    found: list[int] = []
    stretches = [(0, len(array))]
    while stretches:
        start, length = stretches.pop()
        if length and not _is_valid(pa.concat_arrays([array.slice(start, length)])):
            half = length // 2
            found += [start] if length == 1 else []
            stretches += [] if length == 1 else [(start, half), (start + half, length - half)]
    return sorted(found)


def _is_valid(array: pa.Array) -> bool:
    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def as_text(rows: pa.Table) -> pa.Array:
    """Rows that have no line of their own, as JSON. Malformed rows are few, and only these pass through Python."""
    return pa.array([json.dumps(row, default=str, ensure_ascii=False) for row in python_rows(rows)], pa.string())
