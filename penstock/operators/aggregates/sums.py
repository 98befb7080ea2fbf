"""Partials of `count`, `sum` and `avg`.

A sum of integers is stored as two 64-bit columns, its upper and lower parts. It is exact for any number of parts merged
in any order, so only the sum of a whole window can overflow, and it overflows in every run or in none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.kernels.arrays import Indices
from penstock.kernels.codes import Codes, decimal_integers, decimals, integers
from penstock.kernels.segments import Segments, Values, masked, valid_mask

_SHIFT = np.int64(32)
_LOWER = np.int64(2**32 - 1)


@dataclass(frozen=True)
class RowCount:
    """The number of rows."""

    @property
    def parts(self) -> dict[str, pa.DataType]:
        return {"rows": pa.int64()}

    def of_rows(self, column: pa.Array | None, times: Indices, groups: Segments) -> list[pa.Array]:
        return [pa.array(groups.sizes)]

    def merge(self, parts: Sequence[pa.Array], groups: Segments) -> list[pa.Array]:
        return [pa.array(groups.add(parts[0].to_numpy()))]

    final = merge


@dataclass(frozen=True)
class Count:
    """The number of values that are not null."""

    @property
    def parts(self) -> dict[str, pa.DataType]:
        return {"values": pa.int64()}

    def of_rows(self, column: pa.Array | None, times: Indices, groups: Segments) -> list[pa.Array]:
        assert column is not None
        valid = valid_mask(column)
        return [pa.array(groups.sizes if valid is None else groups.add(valid.astype(np.int64)))]

    def merge(self, parts: Sequence[pa.Array], groups: Segments) -> list[pa.Array]:
        return [pa.array(groups.add(parts[0].to_numpy()))]

    final = merge


@dataclass(frozen=True)
class WholeSum:
    """The sum of integers, or of decimals as scaled integers: upper * 2**32 + lower.

    Invariant: 0 <= lower < 2**32; both parts are null if there are no values.
    """

    @property
    def parts(self) -> dict[str, pa.DataType]:
        return {"upper": pa.int64(), "lower": pa.int64()}

    def of_rows(self, column: pa.Array | None, times: Indices, groups: Segments) -> list[pa.Array]:
        assert column is not None
        values = decimal_integers(column) if pa.types.is_decimal(column.type) else integers(column)
        if _fits(values, groups):
            whole = groups.add(values)
            return _carried(whole >> _SHIFT, whole & _LOWER, column, groups)
        return _carried(groups.add(values >> _SHIFT), groups.add(values & _LOWER), column, groups)

    def merge(self, parts: Sequence[pa.Array], groups: Segments) -> list[pa.Array]:
        upper, lower = (groups.add(integers(part)) for part in parts)
        return _carried(upper, lower, parts[0], groups)

    final = merge


def _fits(values: Codes, groups: Segments) -> bool:
    """Return whether no sum of a group can exceed 63 bits."""
    largest = max(-int(values.min()), int(values.max()))
    return largest * int(groups.sizes.max()) < 2**63


def _carried(upper: Codes, lower: Codes, source: pa.Array, groups: Segments) -> list[pa.Array]:
    """Carry the overflow of the lower parts to the upper parts; null in groups without values."""
    valid = valid_mask(source)
    present = None if valid is None else groups.any(valid)
    carried = upper + (lower >> _SHIFT), lower & _LOWER
    return [masked(pa.array(part), present) for part in carried]


def whole_sum(upper: pa.Array, lower: pa.Array) -> pa.Array | None:
    """Return the sums as 64-bit integers, or None if one of them overflows."""
    high = integers(upper)
    if np.any(high != high.astype(np.int32)):
        return None
    return masked(pa.array(high << _SHIFT | integers(lower)), valid_mask(upper))


def decimal_sum(upper: pa.Array, lower: pa.Array, scale: int) -> pa.Array:
    """Return the sums as decimals of 38 digits."""
    high = integers(upper)
    total = decimals(high << _SHIFT | integers(lower), high >> _SHIFT, pa.decimal128(38, scale))
    return masked(total, valid_mask(upper))


def whole_average(upper: pa.Array, lower: pa.Array, count: pa.Array, scale: int) -> pa.Array:
    """Return the sums divided by the counts, as doubles."""
    total = integers(upper).astype(np.float64) * 2.0**32 + integers(lower)
    return pc.divide(masked(pa.array(total / 10.0**scale), valid_mask(upper)), count.cast(pa.float64()))


@dataclass(frozen=True)
class FloatSum:
    """The sum of floats; null if there are no values."""

    @property
    def parts(self) -> dict[str, pa.DataType]:
        return {"sum": pa.float64()}

    def of_rows(self, column: pa.Array | None, times: Indices, groups: Segments) -> list[pa.Array]:
        assert column is not None
        return self.merge([column.cast(pa.float64())], groups)

    def merge(self, parts: Sequence[pa.Array], groups: Segments) -> list[pa.Array]:
        valid = valid_mask(parts[0])
        with np.errstate(all="ignore"):  # infinities of both signs give NaN, which is correct
            total = groups.add(floats(parts[0]))
        return [masked(pa.array(total), None if valid is None else groups.any(valid))]

    final = merge


def floats(array: pa.Array) -> Values:
    """Return doubles, with zero for nulls."""
    return np.asarray((array.fill_null(0.0) if array.null_count else array).to_numpy())
