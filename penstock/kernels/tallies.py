"""Grouping without a sort, for few keys and panes with many rows each: rows are numbered by group and counted.

If keys are few, a short prefix of the hash distinguishes them, so a small table maps prefixes to numbers. It is
verified that every row agrees with its group in the whole hash and in the key; if one does not, the rows are grouped by
sorting.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt

from penstock.kernels.arrays import Indices, Words
from penstock.kernels.order import PaneRanks, group_by_pane
from penstock.kernels.segments import Segments, Values, blocks

_LEAST_ROWS, _MOST_ROWS = 1 << 12, 1 << 21  # below 2**21 rows, sums of 32-bit halves are exact as doubles
_MOST_KEYS = 512
_ROWS_PER_GROUP = 8
_SAMPLE = 1 << 11
_PREFIX_BITS = 16
_HALF = np.int64(32)
_LOWER = np.int64(2**32 - 1)


def group(hashes: Words, panes: Indices, width: int, keys: Sequence[Words]) -> Segments:
    """Return the rows of each key and pane as ranges in order of hash and pane, like `group_by_pane`."""
    return _tallied(hashes, panes, width, keys) or group_by_pane(hashes, panes, width, keys)


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


def _tallied(hashes: Words, panes: Indices, width: int, keys: Sequence[Words]) -> Tallies | None:
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
