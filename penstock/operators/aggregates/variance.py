"""Partials of variance and standard deviation: count, mean, and sum of squared deviations from the mean.

Parts are merged by their deviations from the common mean, never by subtracting large sums, so that values far from zero
do not lose precision.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.kernels.arrays import Indices
from penstock.kernels.segments import Segments, Values, masked, valid_mask
from penstock.operators.aggregates.sums import floats


@dataclass(frozen=True)
class VarianceParts:
    """The count, mean and sum of squared deviations. Invariant: a group without values has zeros in all three parts."""

    @property
    def parts(self) -> dict[str, pa.DataType]:
        return {"values": pa.int64(), "mean": pa.float64(), "squares": pa.float64()}

    def of_rows(self, column: pa.Array | None, times: Indices, groups: Segments) -> list[pa.Array]:
        assert column is not None
        valid = valid_mask(column)
        weights = np.ones(len(column), dtype=np.int64) if valid is None else valid.astype(np.int64)
        return _merged(weights, floats(column.cast(pa.float64())), np.zeros(len(column)), groups)

    def merge(self, parts: Sequence[pa.Array], groups: Segments) -> list[pa.Array]:
        weights, means, squares = (part.to_numpy() for part in parts)
        return _merged(weights, means, squares, groups)

    final = merge


def _merged(weights: Values, means: Values, squares: Values, groups: Segments) -> list[pa.Array]:
    """Merge the parts of each group, in blocks of bounded size."""
    columns = (weights, means, squares)
    with np.errstate(all="ignore"):  # infinities give NaN, which is correct
        blocks = [_merged_tiles(part, *(c[part.order] for c in columns)) for part in groups.apart()]
    types = (pa.int64(), pa.float64(), pa.float64())
    return [
        pa.array(np.concatenate([block[i] for block in blocks]) if blocks else [], type_)
        for i, type_ in enumerate(types)
    ]


def _merged_tiles(part: Segments, weights: Values, means: Values, squares: Values) -> tuple[Values, Values, Values]:
    """Merge the parts of contiguous groups."""
    tiles = Segments(None, part.lo, part.hi)
    total = tiles.add(weights)
    # First take deviations from a value of the group, so that the variance of equal values is exactly zero.
    base = np.where(total > 0, tiles.least(np.where(weights > 0, means, np.inf)), 0.0)
    mean = base + tiles.add(weights * (means - tiles.spread(base))) / np.maximum(total, 1)
    deviation = means - tiles.spread(mean)
    return total, mean, tiles.add(squares + weights * deviation * deviation)


def variance(values: pa.Array, squares: pa.Array, *, sample: bool, root: bool) -> pa.Array:
    """Return the variance or, with `root`, its root. Null without values; with `sample`, also with one value."""
    divisor = values.to_numpy() - (1 if sample else 0)
    spread = squares.to_numpy() / np.maximum(divisor, 1)
    return masked(pa.array(np.sqrt(spread) if root else spread), divisor > 0)
