"""Malformed rows as a table, and the one rule that holds for every format: a row without a time is malformed."""

from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.sources.base import BAD_ROWS_SCHEMA, ReadResult


def bad_table(file: str, lines: pa.Array, reasons: pa.Array, texts: pa.Array) -> pa.Table:
    """Malformed rows of one file; `lines` counts from 1, or is null where nobody counted."""
    files = pa.repeat(pa.scalar(file), len(lines))
    return pa.table([files, lines, reasons, texts], schema=BAD_ROWS_SCHEMA)


def null_time_reason(time: str) -> str:
    return f"`{time}` is null"


def divert_null_times(rows: pa.Table, time: str, file: str, rows_before: Callable[[], int]) -> ReadResult:
    """Rows of a binary file without those that have no time. `rows_before` is asked only when there are some."""
    if rows.column(time).null_count == 0:
        return ReadResult(rows)
    missing = pc.is_null(rows.column(time))
    lines = np.flatnonzero(np.asarray(missing)) + 1 + rows_before()
    reasons = pa.repeat(pa.scalar(null_time_reason(time)), len(lines))
    bad = bad_table(file, pa.array(lines), reasons, as_text(rows.filter(missing)))
    return ReadResult(rows.filter(pc.invert(missing)), bad)


def as_text(rows: pa.Table) -> pa.Array:
    """Rows that have no line of their own, as JSON. Malformed rows are few, and only these pass through Python."""
    return pa.array([json.dumps(row, default=str, ensure_ascii=False) for row in rows.to_pylist()], pa.string())
