"""Conversion of rows to Python values for display, also for times beyond Python's calendar and text that is not
UTF-8."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from penstock.arrow import AnyChunked, AnyScalar


def python_rows(rows: pa.Table) -> list[dict[str, Any]]:
    """Return the rows as dicts of Python values. A value that Python cannot represent becomes text."""
    columns = [_python_values(column) for column in rows.columns]
    return [dict(zip(rows.column_names, values, strict=True)) for values in zip(*columns, strict=True)]


def _python_values(column: AnyChunked) -> list[Any]:
    """Return the values of a column."""
    try:
        return list(column.to_pylist(maps_as_pydicts="lossy"))
    except (ArithmeticError, ValueError):  # a year beyond 9999, or text that is not UTF-8, which is a ValueError too
        pass
    if pa.types.is_string(column.type):
        octets = (value for chunk in column.chunks for value in chunk.view(pa.binary()).to_pylist())
        return [None if value is None else value.decode("utf-8", "backslashreplace") for value in octets]
    if pa.types.is_timestamp(column.type) or pa.types.is_date(column.type):
        return list(column.cast(pa.string()).to_pylist())
    return [_python_value(value) for value in column]


def _python_value(value: AnyScalar) -> Any:
    try:
        return value.as_py(maps_as_pydicts="lossy")
    except (ArithmeticError, ValueError):
        return f"<{value.type} that cannot be shown>"
