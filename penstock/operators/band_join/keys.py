"""Comparing the keys of candidates: an equal hash does not make them equal."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.kernels.arrays import Flags, Indices


def same_keys(left: Sequence[pa.Array], left_rows: Indices, right: Sequence[pa.Array], right_rows: Indices) -> Flags:
    """For each pair of rows, whether their keys are equal. Keys have no nulls; all NaN are equal, and so are the two
    zeros."""
    same = np.ones(len(left_rows), dtype=np.bool_)
    for one, other in zip(left, right, strict=True):
        same &= _same(one, left_rows, other, right_rows)
    return same


def _same(left: pa.Array, left_rows: Indices, right: pa.Array, right_rows: Indices) -> Flags:
    words, other_words = _view(left), _view(right)
    if words is None or other_words is None:
        return _same_values(left.take(pa.array(left_rows)), right.take(pa.array(right_rows)))
    values, others = words[left_rows], other_words[right_rows]
    same: Flags = values == others
    if values.dtype.kind == "f":
        same |= (values != values) & (others != others)
    return same


def _view(array: pa.Array) -> npt.NDArray[np.generic] | None:
    """Numbers and times without a copy; None for other types."""
    t = pa.types
    if t.is_timestamp(array.type):
        array = array.view(pa.int64())
    elif t.is_date32(array.type):
        array = array.view(pa.int32())
    if not (t.is_integer(array.type) or t.is_float32(array.type) or t.is_float64(array.type)):
        return None
    return np.asarray(array.to_numpy())


def _same_values(left: pa.Array, right: pa.Array) -> Flags:
    if pa.types.is_dictionary(left.type):
        left = left.cast(left.type.value_type)
    if pa.types.is_dictionary(right.type):
        right = right.cast(right.type.value_type)
    return np.asarray(pc.equal(left, right).to_numpy(zero_copy_only=False), dtype=np.bool_)
