"""Compare tables as multisets of rows; doubles are equal within a relative error of 1e-9."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import pyarrow as pa

_SHOWN = 5  # rows shown on each side of a difference


def assert_same_rows(got: pa.Table, want: pa.Table, context: str = "") -> None:
    """Fail unless two tables have the same rows equally often; show the first rows that differ on each side."""
    assert got.column_names == want.column_names, f"{context}: columns {got.column_names}, expected {want.column_names}"
    ours, theirs = sorted(map(_plain, got.to_pylist()), key=_order), sorted(map(_plain, want.to_pylist()), key=_order)
    if len(ours) == len(theirs) and all(map(_rows_equal, ours, theirs)):
        return
    raise AssertionError(f"{context}\n{_difference(ours, theirs)}")


def _plain(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(row.values())


def _order(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return a sort key with exact values first, so that rounding never decides how rows are paired."""
    exact = tuple("" if isinstance(v, float) else repr(v) for v in row)
    return exact, tuple(f"{v + 0.0:.6e}" for v in row if isinstance(v, float))  # adding zero turns -0.0 into 0.0


def _rows_equal(a: tuple[Any, ...], b: tuple[Any, ...]) -> bool:
    return all(map(_values_equal, a, b))


def _values_equal(a: Any, b: Any) -> bool:
    if isinstance(a, float) and isinstance(b, float):
        return (math.isnan(a) and math.isnan(b)) or math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-9)
    return bool(a == b)


def _difference(ours: list[tuple[Any, ...]], theirs: list[tuple[Any, ...]]) -> str:
    """Describe the rows that occur more often on one side; if there are none, those that are only nearly equal."""
    extra, missing = _surplus(ours, theirs), _surplus(theirs, ours)
    if not extra and not missing:
        extra, missing = ([b for a, b in zip(x, y, strict=True) if not _rows_equal(a, b)][:_SHOWN]
                          for x, y in ((theirs, ours), (ours, theirs)))  # fmt: skip
    return f"{len(ours)} rows, expected {len(theirs)}\n  not expected: {extra}\n  missing: {missing}"


def _surplus(rows: list[tuple[Any, ...]], others: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Return the first rows that occur more often in `rows` than in `others`."""
    left = Counter(map(_order, others))
    found: list[tuple[Any, ...]] = []
    for row in rows:
        left[_order(row)] -= 1
        if left[_order(row)] < 0 and len(found) < _SHOWN:
            found.append(row)
    return found
