"""Tables are compared as multisets of rows."""

from __future__ import annotations

import math

import pyarrow as pa
import pytest

from penstock.testing import assert_same_rows


def table(*rows: tuple[int, float | None]) -> pa.Table:
    ids, values = zip(*rows, strict=True)
    return pa.table({"id": pa.array(ids, pa.int64()), "value": pa.array(values, pa.float64())})


def test_order_zeros_and_rounding_do_not_matter() -> None:
    assert_same_rows(table((1, 0.0), (2, math.nan), (3, 1.0)), table((3, 1.0 + 1e-12), (2, math.nan), (1, -0.0)))


def test_rows_are_paired_by_column() -> None:
    """A null in one column and a number in another are not the same row as the other way round."""
    values, others = pa.array([None, 0.0]), pa.array([0.0, None])
    assert_same_rows(pa.table({"a": values, "b": others}), pa.table({"a": others, "b": values}))


@pytest.mark.parametrize(
    ("got", "want", "told"),
    [
        (table((1, 1.0)), table((1, 1.0), (1, 1.0)), r"missing: \[\(1, 1.0\)\]"),
        (table((1, 1.0), (2, 2.0)), table((1, 1.0)), r"not expected: \[\(2, 2.0\)\]"),
        (table((1, None)), table((1, math.nan)), "missing"),
        (table((1, 1.0)), table((1, 1.00000001)), r"not expected: \[\(1, 1.0\)\]\n  missing: \[\(1, 1.00000001\)\]"),
    ],
)
def test_what_differs_is_told(got: pa.Table, want: pa.Table, told: str) -> None:
    with pytest.raises(AssertionError, match=told):
        assert_same_rows(got, want)


def test_columns_must_be_the_same() -> None:
    with pytest.raises(AssertionError, match="columns"):
        assert_same_rows(table((1, 1.0)), table((1, 1.0)).rename_columns(["id", "other"]))
