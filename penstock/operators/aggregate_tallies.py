"""Groups of many rows each: few keys, few panes. Their rows are numbered and tallied, and nothing is sorted.

The first bits of the hash tell few keys apart, so a small table turns them into numbers. That every row agrees with its
group in the whole hash and in the key is verified; where one does not, the rows are grouped by sorting after all.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt

from penstock.operators.aggregate_order import group_by_pane, ranks_of
from penstock.operators.aggregate_segments import Indices, Segments, Values
from penstock.state.hash import Words

Prefixes = npt.NDArray[np.uint16]

_LEAST_ROWS, _MOST_ROWS = 1 << 12, 1 << 21  # sums of halves of that many numbers are exact as doubles
_MOST_KEYS = 512
_ROWS_PER_GROUP = 8
_SAMPLE = 1 << 11
_PREFIX_BITS = 16
_HALF = np.int64(32)
_LOWER = np.int64(2**32 - 1)


def group(hashes: Words, panes: Indices, width: int, keys: Sequence[Words]) -> Segments:
    """The rows of each key and pane, in order of hash and pane: the same as `group_by_pane`."""
    return _tallied(hashes, panes, width, keys) or group_by_pane(hashes, panes, width, keys)


class Tallies(Segments):
    """Invariant: row n belongs to range `numbers[n]`, and no range is empty. `order` is made where it is asked for."""

    def __init__(self, numbers: Indices, sizes: Indices) -> None:
        ends = np.cumsum(sizes)
        self.__dict__.update(numbers=numbers, sizes=sizes, lo=ends - sizes, hi=ends)

    numbers: Indices

    @cached_property
    def order(self) -> Indices:
        return np.argsort(self.numbers.astype(np.uint16 if len(self) < 1 << 16 else np.int64), kind="stable")

    @cached_property
    def first_rows(self) -> Indices:
        """Some row of each range: they all have the same key and pane."""
        rows = np.empty(len(self), dtype=np.int64)
        rows[self.numbers] = np.arange(len(self.numbers))
        return rows

    def add(self, values: Values) -> Values:
        if values.dtype.kind == "f":
            return self._tally(values)
        upper, lower = self._tally(values >> _HALF), self._tally(values & _LOWER)
        return np.asarray((upper.astype(np.int64) << _HALF) + lower.astype(np.int64))

    def any(self, flags: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
        return self._tally(flags) > 0

    def _tally(self, values: Values) -> Values:
        return np.bincount(self.numbers, weights=values, minlength=len(self))


def _tallied(hashes: Words, panes: Indices, width: int, keys: Sequence[Words]) -> Tallies | None:
    if not _LEAST_ROWS <= len(hashes) < _MOST_ROWS:
        return None
    known = np.unique(_prefixes(hashes[:: len(hashes) // _SAMPLE]))
    if len(known) > _MOST_KEYS:
        return None
    key_numbers = _key_numbers(_prefixes(hashes), known)
    ranks, _ = ranks_of(panes, width)
    many = int(ranks.max()) + 1
    if many * (int(key_numbers.max()) + 1) * _ROWS_PER_GROUP > len(hashes):
        return None
    tallies = _numbered(key_numbers * many + ranks.view(np.int64))
    return tallies if all(_same(column, tallies) for column in (hashes, *keys)) else None


def _prefixes(hashes: Words) -> Prefixes:
    return (hashes >> np.uint64(64 - _PREFIX_BITS)).astype(np.uint16)


def _key_numbers(prefixes: Prefixes, known: Prefixes) -> Indices:
    """The numbers of the prefixes in their order, of which some are known."""
    numbers = _table(known).take(prefixes)
    if (strange := numbers < 0).any():
        known = np.union1d(known, prefixes[strange])
        numbers = _table(known).take(prefixes)
    return numbers


def _table(known: Prefixes) -> Indices:
    numbers = np.full(1 << _PREFIX_BITS, -1, dtype=np.int64)
    numbers[known] = np.arange(len(known))
    return numbers


def _numbered(places: Indices) -> Tallies:
    """Ranges for the places that have a row."""
    sizes = np.bincount(places)
    filled = sizes > 0
    if filled.all():
        return Tallies(places, sizes)
    return Tallies((np.cumsum(filled) - 1).take(places), sizes[filled])


def _same(column: Words, tallies: Tallies) -> bool:
    """Whether all rows of a range have one value."""
    return bool(np.array_equal(column[tallies.first_rows].take(tallies.numbers), column))
