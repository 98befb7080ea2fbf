"""Malformed rows as a table, and the rule of every format that a row without a time is malformed."""

from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.arrow import AnyArray, AnyChunked
from penstock.connectors.source import BAD_ROWS_SCHEMA, ReadResult
from penstock.errors import printable
from penstock.shown import python_rows


def bad_table(file: str, lines: AnyArray, reasons: AnyArray, texts: AnyArray) -> pa.Table:
    """Return malformed rows of one file as a table; `lines` count from 1, or are null if unknown."""
    files = pa.repeat(pa.scalar(printable(file)), len(lines))
    return pa.table([files, lines, reasons, texts], schema=BAD_ROWS_SCHEMA)


def null_time_reason(time: str) -> str:
    """Return the reason for a row whose time is null."""
    return f"`{time}` is null"


def divert_malformed(rows: pa.Table, time: str, file: str, rows_before: Callable[[], int]) -> ReadResult:
    """Separate the rows of a binary file that have no time, or text that is not UTF-8, from the others.

    Writers of such files need not validate text, and text functions fail on it. `rows_before`, the number of rows in
    the file before these, is only called if some are malformed.
    """
    why = [_wrong_text(field.name, rows.column(field.name)) for field in rows.schema]
    if rows.column(time).null_count:
        missing = rows.column(time).combine_chunks().is_null()
        why.append(pc.if_else(missing, pa.scalar(null_time_reason(time)), pa.scalar(None, pa.string())))
    given = [reasons for reasons in why if reasons is not None]
    if not given:
        return ReadResult(rows)
    reasons = pc.coalesce(*given)
    malformed = pc.is_valid(reasons)
    lines = np.flatnonzero(np.asarray(malformed)) + 1 + rows_before()
    bad = bad_table(file, pa.array(lines), reasons.drop_null(), as_text(rows.filter(malformed)))
    return ReadResult(rows.filter(pc.invert(malformed)), bad)


def _wrong_text(name: str, column: AnyChunked) -> AnyArray | None:
    """Return for each row the reason why its value is malformed, null if it is not; None if no value is."""
    if not (pa.types.is_string(column.type) or pa.types.is_nested(column.type)):
        return None
    starts = np.cumsum([0, *(len(chunk) for chunk in column.chunks)])
    wrong = [int(start) + at for start, chunk in zip(starts, column.chunks, strict=False) for at in _invalid(chunk)]
    if not wrong:
        return None
    reasons = np.full(len(column), None, object)
    reasons[wrong] = f"`{name}` is not UTF-8"
    return pa.array(reasons, pa.string())


def _invalid(array: AnyArray) -> list[int]:
    """Return the sorted indexes of values with text that is not UTF-8, found by bisection."""
    if _is_valid(array):
        return []
    found: list[int] = []
    ranges = [(0, len(array))]
    while ranges:
        start, length = ranges.pop()
        if length and not _is_valid(pa.concat_arrays([array.slice(start, length)])):
            half = length // 2
            found += [start] if length == 1 else []
            ranges += [] if length == 1 else [(start, half), (start + half, length - half)]
    return sorted(found)


def _is_valid(array: AnyArray) -> bool:
    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def as_text(rows: pa.Table) -> AnyArray:
    """Return each row as JSON text, for rows that have no line. Goes through Python; malformed rows are few."""
    return pa.array([json.dumps(row, default=str, ensure_ascii=False) for row in python_rows(rows)], pa.string())
