"""Comparing tables as multisets of rows; doubles are equal within 1e-9, relatively."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa


def assert_same_rows(got: pa.Table, want: pa.Table, context: str = "") -> None:
    """Fails with the first rows that differ, on both sides."""
    assert got.column_names == want.column_names, f"{context}: columns {got.column_names}, expected {want.column_names}"
    ours, theirs = sorted(map(_plain, got.to_pylist()), key=_order), sorted(map(_plain, want.to_pylist()), key=_order)
    if len(ours) == len(theirs) and all(map(_rows_equal, ours, theirs)):
        return
    raise AssertionError(f"{context}\n{_difference(ours, theirs)}")


def _plain(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(row.values())


def _order(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """Exact columns first, so that rounding never decides how rows are paired."""
    exact = [repr(v) for v in row if not isinstance(v, float)]
    return (*exact, *(f"{v + 0.0:.6e}" for v in row if isinstance(v, float)))  # adding zero makes -0.0 like 0.0


def _rows_equal(a: tuple[Any, ...], b: tuple[Any, ...]) -> bool:
    return all(map(_values_equal, a, b))


def _values_equal(a: Any, b: Any) -> bool:
    if isinstance(a, float) and isinstance(b, float):
        return (math.isnan(a) and math.isnan(b)) or math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-9)
    return bool(a == b)


def _difference(ours: list[tuple[Any, ...]], theirs: list[tuple[Any, ...]]) -> str:
    extra = [row for row in ours if not any(_rows_equal(row, other) for other in theirs)][:5]
    missing = [row for row in theirs if not any(_rows_equal(row, other) for other in ours)][:5]
    return f"{len(ours)} rows, expected {len(theirs)}\n  not expected: {extra}\n  missing: {missing}"
