"""Ranges of rows that are reduced to one row each: the rows of a key and pane, or the panes of a window."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.kernels.arrays import Indices

Values = npt.NDArray[Any]

_BLOCK = 1 << 22  # positions that overlapping ranges are spelled out to at a time


@dataclass(frozen=True)
class Segments:
    """Range i holds the positions lo[i] .. hi[i] - 1 of the rows taken in `order` (None: as they stand).

    Invariant: lo < hi in every range, so no range is empty; neither lo nor hi ever falls. Ranges may overlap.
    """

    order: Indices | None
    lo: Indices
    hi: Indices

    def __len__(self) -> int:
        return len(self.lo)

    @cached_property
    def sizes(self) -> Indices:
        return self.hi - self.lo

    @cached_property
    def _single(self) -> bool:
        return bool(np.all(self.sizes == 1))

    @cached_property
    def _contiguous(self) -> bool:
        return np.array_equal(self.lo[1:], self.hi[:-1])

    @cached_property
    def first_rows(self) -> Indices:
        """The row at the head of each range."""
        return self.lo if self.order is None else self.order[self.lo]

    def places(self, rows: int) -> Indices:
        """The position at which each row stands."""
        if self.order is None:
            return np.arange(rows)
        places = np.empty(rows, dtype=np.int64)
        places[self.order] = np.arange(rows)
        return places

    def add(self, values: Values) -> Values:
        return self._reduce(np.add, values)

    def least(self, values: Values) -> Values:
        return self._reduce(np.minimum, values)

    def greatest(self, values: Values) -> Values:
        return self._reduce(np.maximum, values)

    def any(self, flags: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
        return self._reduce(np.logical_or, flags)

    def _reduce(self, operation: np.ufunc, values: Values) -> Values:
        if self._single:
            return values if self.are_the_rows(len(values)) else values[self.first_rows]
        arranged = values if self.order is None else values[self.order]
        if self._contiguous and self.hi[-1] == len(arranged):
            return np.asarray(operation.reduceat(arranged, self.lo))
        # Pairs of borders give the ranges at the even places. One value is added behind, as a border may be the end.
        borders = np.stack((self.lo, self.hi), axis=1).ravel()
        return np.asarray(operation.reduceat(np.append(arranged, arranged[:1]), borders)[::2])

    def are_the_rows(self, rows: int) -> bool:
        """Whether the ranges are just the rows, one by one, as they stand."""
        return self.order is None and len(self) == rows and self._single and self._contiguous

    def spread(self, values: Values) -> Values:
        """One value per range, repeated for each of its rows."""
        return np.repeat(values, self.sizes)

    def rows(self) -> Indices:
        """The rows of all ranges, one range after another; a row in several ranges comes several times."""
        if self._contiguous and len(self):
            return np.arange(self.lo[0], self.hi[-1]) if self.order is None else self.order[self.lo[0] : self.hi[-1]]
        starts = np.cumsum(self.sizes) - self.sizes
        positions = np.arange(int(self.sizes.sum())) + self.spread(self.lo - starts)
        return positions if self.order is None else self.order[positions]

    def apart(self) -> Iterator[Segments]:
        """The same ranges without overlap, over rows repeated as needed, in blocks of bounded size."""
        starts = np.cumsum(self.sizes) - self.sizes
        blocks = np.flatnonzero(np.diff(starts // _BLOCK, prepend=-1))
        for first, last in zip(blocks, np.append(blocks[1:], len(self)), strict=False):
            part = Segments(self.order, self.lo[first:last], self.hi[first:last])
            at = starts[first:last] - starts[first]
            yield Segments(part.rows(), at, at + part.sizes)


def one_by_one(rows: int) -> Segments:
    """Every row is a range of its own."""
    places = np.arange(rows)
    return Segments(None, places, places + 1)


def valid_mask(array: pa.Array) -> npt.NDArray[np.bool_] | None:
    """Which values are not null; None if all are."""
    return np.asarray(array.is_valid().to_numpy(zero_copy_only=False)) if array.null_count else None


def masked(values: pa.Array, valid: npt.NDArray[np.bool_] | None) -> pa.Array:
    """The values, null where not `valid`."""
    if valid is None or valid.all():
        return values
    return pc.if_else(pa.array(valid), values, pa.scalar(None, values.type))
