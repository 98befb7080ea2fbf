"""Segments: ranges of rows that are reduced to one row each, such as the rows of a key and pane, or the panes of a
window.

Block-wise work on columns, so that a block stays in the CPU cache from one step to the next.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.arrow import AnyArray, where
from penstock.kernels.arrays import Indices

Values = npt.NDArray[Any]

_BLOCK = 1 << 22  # rows to which overlapping ranges are expanded at a time


@dataclass(frozen=True)
class Segments:
    """Ranges of rows: range i holds the positions lo[i] .. hi[i] - 1 of the rows taken in `order` (None: unchanged).

    Invariant: lo < hi in every range, so no range is empty; lo and hi are ascending. Ranges may overlap.
    """

    order: Indices | None
    lo: Indices
    hi: Indices

    def __len__(self) -> int:
        return len(self.lo)

    @cached_property
    def sizes(self) -> Indices:
        """Return the number of rows of each range."""
        return self.hi - self.lo

    @cached_property
    def _single(self) -> bool:
        """Return whether every range has exactly one row."""
        return bool(np.all(self.sizes == 1))

    @cached_property
    def _contiguous(self) -> bool:
        """Return whether each range begins where the previous one ends."""
        return np.array_equal(self.lo[1:], self.hi[:-1])

    @cached_property
    def first_rows(self) -> Indices:
        """Return the first row of each range."""
        return self.lo if self.order is None else self.order[self.lo]

    def places(self, rows: int) -> Indices:
        """Return the position of each row in `order`."""
        if self.order is None:
            return np.arange(rows)
        places = np.empty(rows, dtype=np.int64)
        places[self.order] = np.arange(rows)
        return places

    def add(self, values: Values) -> Values:
        """Return the sum of `values` in each range."""
        return self._reduce(np.add, values)

    def least(self, values: Values) -> Values:
        """Return the minimum of `values` in each range."""
        return self._reduce(np.minimum, values)

    def greatest(self, values: Values) -> Values:
        """Return the maximum of `values` in each range."""
        return self._reduce(np.maximum, values)

    def any(self, flags: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
        """Return whether any flag is set, for each range."""
        return self._reduce(np.logical_or, flags)

    def _reduce(self, operation: np.ufunc, values: Values) -> Values:
        """Reduce the values of each range by a ufunc. `values` are in the order of the rows, not of the ranges."""
        if self._single:
            return values if self.are_the_rows(len(values)) else values[self.first_rows]
        arranged = values if self.order is None else values[self.order]
        if self._contiguous and self.hi[-1] == len(arranged):
            return np.asarray(operation.reduceat(arranged, self.lo))
        # reduceat over pairs of borders gives the ranges at even positions. One value is appended, because an index at
        # the end is not allowed.
        borders = np.stack((self.lo, self.hi), axis=1).ravel()
        return np.asarray(operation.reduceat(np.append(arranged, arranged[:1]), borders)[::2])

    def are_the_rows(self, rows: int) -> bool:
        """Return whether range i is just row i, for all of `rows` rows."""
        return self.order is None and len(self) == rows and self._single and self._contiguous

    def spread(self, values: Values) -> Values:
        """Repeat one value per range for each row of the range."""
        return np.repeat(values, self.sizes)

    def rows(self) -> Indices:
        """Return the rows of all ranges, range by range. A row in several ranges occurs several times."""
        if self._contiguous and len(self):
            return np.arange(self.lo[0], self.hi[-1]) if self.order is None else self.order[self.lo[0] : self.hi[-1]]
        starts = np.cumsum(self.sizes) - self.sizes
        positions = np.arange(int(self.sizes.sum())) + self.spread(self.lo - starts)
        return positions if self.order is None else self.order[positions]

    def apart(self) -> Iterator[Segments]:
        """Yield the same ranges without overlap, over repeated rows, in blocks of bounded size."""
        starts = np.cumsum(self.sizes) - self.sizes
        blocks = np.flatnonzero(np.diff(starts // _BLOCK, prepend=-1))
        for first, last in zip(blocks, np.append(blocks[1:], len(self)), strict=False):
            part = Segments(self.order, self.lo[first:last], self.hi[first:last])
            at = starts[first:last] - starts[first]
            yield Segments(part.rows(), at, at + part.sizes)


def one_by_one(rows: int) -> Segments:
    """Return segments in which every row is a range."""
    places = np.arange(rows)
    return Segments(None, places, places + 1)


def valid_mask(array: AnyArray) -> npt.NDArray[np.bool_] | None:
    """Return a boolean array that is true where the value is not null; None if there are no nulls."""
    return np.asarray(array.is_valid().to_numpy(zero_copy_only=False)) if array.null_count else None


def masked(values: AnyArray, valid: npt.NDArray[np.bool_] | None) -> AnyArray:
    """Return the values with null where `valid` is false."""
    if valid is None or valid.all():
        return values
    return where(valid, values)


_IN_CACHE = 1 << 15  # rows


def blocks(rows: int) -> Iterator[slice]:
    """Yield slices of `_IN_CACHE` rows that cover all rows. The last slice may extend past the end."""
    return (slice(start, start + _IN_CACHE) for start in range(0, rows, _BLOCK))
