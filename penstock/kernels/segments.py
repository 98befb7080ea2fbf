"""Segments: ranges of rows that are reduced to one row each, such as the rows of a key and pane, or the panes of a
window.

Rows of few keys and panes with many rows each are grouped without a sort: they are numbered by group and counted. If
keys are few, a short prefix of the hash distinguishes them, so a small table maps prefixes to numbers. It is
verified that every row agrees with its group in the whole hash and in the key; if one does not, the rows are grouped by
sorting.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.arrow import AnyArray, where
from penstock.kernels.arrays import Indices, Words

Values = npt.NDArray[Any]

_BLOCK = 1 << 22  # rows to which overlapping ranges are expanded at a time


_IN_CACHE = 1 << 15  # rows of a block that stays in the CPU cache from one step to the next
_MOST_KEYS = 512
_ROWS_PER_GROUP = 8
_SAMPLE = 1 << 11
_PREFIX_BITS = 16
_HALF = np.int64(32)
_LOWER = np.int64(2**32 - 1)


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


def blocks(rows: int) -> Iterator[slice]:
    """Yield slices of `_IN_CACHE` rows that cover all rows. The last slice may extend past the end."""
    return (slice(start, start + _IN_CACHE) for start in range(0, rows, _IN_CACHE))


@dataclass(frozen=True)
class PaneRanks:
    """The map from panes to ranks, counted from the earliest pane.

    Invariant: every pane is `least` plus a multiple of `width`, and `many` is the number of panes from the earliest to
    the latest. Differences are computed as unsigned integers, because they may exceed a signed 64-bit integer.
    """

    least: np.int64
    width: int
    many: int

    @classmethod
    def of(cls, panes: Indices, width: int) -> PaneRanks:
        """Return the ranking of `panes`, which must not be empty and must differ by multiples of `width`."""
        least, largest = panes.min(), panes.max()
        return cls(least, width, (int(largest) - int(least)) // width + 1)

    @property
    def bits(self) -> int:
        """Return the number of bits of the largest rank."""
        return (self.many - 1).bit_length()

    def ranks(self, panes: Indices, out: Indices) -> None:
        """Write the ranks of `panes` to `out`."""
        unsigned = out.view(np.uint64)
        np.subtract(panes.view(np.uint64), self.least.view(np.uint64), out=unsigned)
        np.floor_divide(unsigned, np.uint64(self.width), out=unsigned)

    def panes(self, ranks: Indices) -> None:
        """Replace ranks by their panes in place: the inverse of `ranks`."""
        unsigned = ranks.view(np.uint64)
        unsigned *= np.uint64(self.width)
        unsigned += self.least.view(np.uint64)


_LEAST_ROWS, _MOST_ROWS = 1 << 12, 1 << 21  # below 2**21 rows, sums of 32-bit halves are exact as doubles


class Tallies(Segments):
    """Segments given by the range number of each row, so that sums need no sort.

    Invariant: row n belongs to range `numbers[n]`, and no range is empty. `order` is computed on demand.
    """

    def __init__(self, numbers: Indices, sizes: Indices) -> None:
        ends = np.cumsum(sizes)
        self.__dict__.update(numbers=numbers, sizes=sizes, lo=ends - sizes, hi=ends)

    numbers: Indices

    @cached_property
    def order(self) -> Indices:
        """Return the rows sorted by range; stable."""
        return np.argsort(self.numbers.astype(np.uint16 if len(self) < 1 << 16 else np.int64), kind="stable")

    @cached_property
    def first_rows(self) -> Indices:
        """Return some row of each range; all rows of a range have the same key and pane."""
        rows = np.empty(len(self), dtype=np.int64)
        rows[self.numbers] = np.arange(len(self.numbers))
        return rows

    def add(self, values: Values) -> Values:
        """Return the sum of each range. Integers are added as two 32-bit halves, whose sums are exact as doubles."""
        if values.dtype.kind == "f":
            return self._tally(values)
        upper, lower = self._tally(values >> _HALF), self._tally(values & _LOWER)
        return np.asarray((upper.astype(np.int64) << _HALF) + lower.astype(np.int64))

    def any(self, flags: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
        """Return whether any flag is set, for each range."""
        return self._tally(flags) > 0

    def _tally(self, values: Values) -> Values:
        """Return the sum of each range as doubles."""
        return np.bincount(self.numbers, weights=values, minlength=len(self))


def tallied(hashes: Words, panes: Indices, width: int, keys: Sequence[Words]) -> Tallies | None:
    """Group rows by table; None if there are too few or too many rows, too many groups, or keys that the prefixes of
    their hashes do not distinguish."""
    if not _LEAST_ROWS <= len(hashes) < _MOST_ROWS:
        return None
    known = np.unique(hashes[:: len(hashes) // _SAMPLE])
    if len(known) > _MOST_KEYS:
        return None
    strange = hashes[_unlike(hashes, known)]
    known = np.union1d(known, strange) if len(strange) else known
    ranking = PaneRanks.of(panes, width)
    few = ranking.many * len(known) * _ROWS_PER_GROUP <= len(hashes)
    if not few or len(np.unique(_prefixes(known))) < len(known):
        return None
    tallies = _numbered(_places(hashes, panes, known, ranking))
    return tallies if all(_same(column, tallies) for column in keys) else None


def _prefixes(hashes: Words) -> Indices:
    """Return the first `_PREFIX_BITS` bits of each hash."""
    return (hashes >> np.uint64(64 - _PREFIX_BITS)).view(np.int64)


def _table(known: Words, values: Values) -> Values:
    """Return a table of the values by prefix of the known hashes. In a table of the hashes themselves, every other
    entry has a prefix that differs from its index."""
    table = np.zeros(1 << _PREFIX_BITS, dtype=values.dtype)
    table[:1] = ~table[:1]
    table[_prefixes(known)] = values
    return table


def _unlike(hashes: Words, known: Words) -> Indices:
    """Return the rows whose hash is not the known hash with the same prefix."""
    table = _table(known, known)
    found = [
        rows.start + np.flatnonzero(table.take(_prefixes(hashes[rows])) != hashes[rows]) for rows in blocks(len(hashes))
    ]
    return np.concatenate(found)


def _places(hashes: Words, panes: Indices, known: Words, ranking: PaneRanks) -> Indices:
    """Return a number per row that identifies its key and pane, ascending in hash and pane."""
    table = _table(known, np.arange(len(known)) * ranking.many)
    places = np.empty(len(hashes), np.int64)
    for rows in blocks(len(hashes)):
        ranking.ranks(panes[rows], out=places[rows])
        places[rows] += table.take(_prefixes(hashes[rows]))
    return places


def _numbered(places: Indices) -> Tallies:
    """Return the tallies of the numbers that have rows, renumbered without gaps."""
    sizes = np.bincount(places)
    filled = sizes > 0
    if filled.all():
        return Tallies(places, sizes)
    return Tallies((np.cumsum(filled) - 1).take(places), sizes[filled])


def _same(column: Words, tallies: Tallies) -> bool:
    """Return whether all rows of each range have the same value."""
    return bool(np.array_equal(column[tallies.first_rows].take(tallies.numbers), column))
