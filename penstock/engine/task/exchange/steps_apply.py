"""Rows through a Python function of the user's, and the checks on what comes back."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from penstock.errors import QueryError, SourceError
from penstock.plan.program import Apply
from penstock.types import conform, time_values
from penstock.user_code import told


def apply(rows: pa.Table, step: Apply) -> pa.Table:
    """What the function gives for the rows, in the declared types. It is not asked about no rows."""
    if not rows.num_rows:
        return step.schema.empty_table()
    given = _conforming(_called(rows, step), step)
    if step.times is not None:
        _check_times(rows, given, step.function.name, *step.times)
    return given


def _called(rows: pa.Table, step: Apply) -> pa.Table:
    try:
        given: Any = step.function.call(rows)
    except Exception as error:
        raise QueryError(
            f"the function `{step.function.name}` failed",
            detail=told(error),
            hint=f"it was given {rows.num_rows} rows of {', '.join(rows.column_names)}",
        ) from error
    if isinstance(given, pa.RecordBatch):
        return pa.Table.from_batches([given])
    if not isinstance(given, pa.Table):
        raise QueryError(
            f"the function `{step.function.name}` gave no table",
            detail=f"it gave a {type(given).__name__}",
            hint="return a pyarrow.Table",
        )
    return given


def _conforming(given: pa.Table, step: Apply) -> pa.Table:
    what = f"the function `{step.function.name}` gave a table that does not fit its declared columns"
    if twice := sorted({name for name in step.schema.names if given.column_names.count(name) > 1}):
        raise QueryError(what, detail=f"it has several columns called `{twice[0]}`", hint="return each once")
    try:
        return conform(given, step.schema, f"the result of `{step.function.name}`")
    except SourceError as error:
        detail = f"{error.what}: {error.detail}" if error.detail else error.what
        raise QueryError(what, detail=detail, hint=error.hint) from error


def _check_times(rows: pa.Table, given: pa.Table, function: str, before: str, after: str) -> None:
    """No time may become null, nor earlier than all that were given: what is behind relies on the punctuation."""
    times = given.column(after)
    if times.null_count:
        raise QueryError(
            f"the function `{function}` gave a row without a time",
            detail=f"`{after}` is null in {times.null_count} of {given.num_rows} rows",
            hint="leave such rows out, or declare that the result has no time",
        )
    least = time_values(rows.column(before)).min()
    if given.num_rows and (earlier := time_values(times).min()) < least:
        raise QueryError(
            f"the function `{function}` made times earlier",
            detail=f"the least `{before}` it was given is {least}, the least `{after}` it gave is {earlier}",
            hint="keep the times as they are, or declare that the result has no time",
        )
