"""Rows counted by the groups and cells of a site.

Every count is a search for the borders of all groups in a sorted column of hashes, so the cost per row is negligible.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt

from penstock.balance.stats import IntArray
from penstock.kernels.arrays import Indices, Words
from penstock.state.directory import Directory
from penstock.state.hash_ranges import Hashes, HashRange
from penstock.state.runs import Slice

MOST_COUNTED = 256  # sites whose counts a process caches
_COUNTED: dict[tuple[Path, int, int], Counted] = {}
BLOCK_HASHES = 64  # hashes per block when searching for the heaviest keys


@dataclass(frozen=True, eq=False)
class Borders:
    """The first and the last hash of each group of a site, or of each of its cells, in order of hash."""

    first: Hashes
    last: Hashes

    @staticmethod
    def of(ranges: Sequence[HashRange]) -> Borders:
        """Return the borders of some ranges, which must be in order."""
        return Borders(
            np.asarray([part.low for part in ranges], np.uint64),
            np.asarray([part.high - 1 for part in ranges], np.uint64),
        )

    def __len__(self) -> int:
        return len(self.first)

    def same(self, other: Borders) -> bool:
        """Return whether the borders are equal."""
        return np.array_equal(self.first, other.first) and np.array_equal(self.last, other.last)

    def counted(self, columns: Iterable[Hashes]) -> IntArray:
        """Return how many rows of some sorted columns each group has."""
        total = np.zeros(len(self), np.int64)
        for hashes in columns:
            total += np.searchsorted(hashes, self.last, side="right") - np.searchsorted(hashes, self.first)
        return total

    def tallied(self, columns: Iterable[KeyCounts]) -> tuple[IntArray, IntArray]:
        """Return the rows of each group, and the most rows that one hash of the group has in a column. The columns must
        only have rows of these groups."""
        total, most = np.zeros((2, len(self)), np.int64)
        for counts in columns:
            begin = np.searchsorted(counts.hashes, self.first)
            filled = np.diff(begin, append=len(counts.hashes)) > 0
            total += np.diff(counts.starts[begin], append=counts.starts[-1])
            if filled.any():
                most[filled] = np.maximum(most[filled], np.maximum.reduceat(counts.rows, begin[filled]))
        return total, most

    def estimated(self, columns: Sequence[Hashes]) -> tuple[IntArray, IntArray]:
        """Return the same as `tallied`, but look only at the longest column for the most rows of one hash."""
        total = np.zeros(len(self), np.int64)
        for hashes in columns:
            total += np.diff(np.searchsorted(hashes, self.first), append=len(hashes))
        _, most = self.tallied([KeyCounts.of(max(columns, key=len))] if columns else [])
        return total, np.maximum(most, np.minimum(total, 1))

    def overlap(self, part: HashRange) -> npt.NDArray[np.bool_]:
        """Return a mask of the groups that have hashes in a range."""
        return (self.first <= np.uint64(part.high - 1)) & (self.last >= np.uint64(part.low))


def borders_of(directory: Directory, site: int) -> Borders:
    """Return the borders of a site's groups."""
    own = directory.places_of(site)
    return Borders(directory.lows[own], directory.lasts[own])


@dataclass(frozen=True, eq=False)
class SiteBorders:
    """The borders of a site's groups and of its cells. A cell lies in the range of a group, which need not be at this
    site; its rows do not count as rows of the group."""

    groups: Borders
    cells: Borders

    @staticmethod
    def of(directory: Directory, site: int) -> SiteBorders:
        """Return the borders at a site."""
        return SiteBorders(borders_of(directory, site), Borders.of(directory.cells_of(site)))

    def __len__(self) -> int:
        return len(self.groups) + len(self.cells)

    def same(self, other: SiteBorders) -> bool:
        """Return whether the borders are equal."""
        return self.groups.same(other.groups) and self.cells.same(other.cells)

    def overlap(self, part: HashRange) -> npt.NDArray[np.bool_]:
        """Return a mask of the groups, then of the cells, that have hashes in a range."""
        return np.concatenate((self.groups.overlap(part), self.cells.overlap(part)))

    def count(self, total: IntArray, hashes: Hashes, rows: Indices | None = None) -> None:
        """Add to `total`, which has an entry for each group and then one for each cell, how many of the hashes
        `hashes[rows]` (None: `hashes`) each of them has. Both arrays must be ascending, and without hashes of other
        sites. So a group has all hashes up to the next group, except those of cells."""
        if not len(hashes if rows is None else rows):
            return
        ends = hashes[[0, -1]] if rows is None else hashes[rows[[0, -1]]]
        places = np.searchsorted(self.groups.first, ends, side="right")
        near = slice(max(0, int(places[0]) - 1), int(places[1]))  # all others have none
        begins = _places(np.searchsorted(hashes, self.groups.first[near]), rows)
        total[near] += np.diff(begins, append=len(hashes) if rows is None else len(rows))
        if len(self.cells):
            self._count_cells(total, hashes, rows)

    def _count_cells(self, total: IntArray, hashes: Hashes, rows: Indices | None) -> None:
        """Add the rows of cells to `total`, and subtract them from the groups where they have been counted."""
        begins, ends = (np.searchsorted(hashes, self.cells.first, side=side) for side in ("left", "right"))
        found = _places(ends, rows) - _places(begins, rows)
        total[len(self.groups) :] += found
        before = np.searchsorted(self.groups.first, self.cells.first, side="right") - 1
        np.subtract.at(total, before[before >= 0], found[before >= 0])


def _places(borders: Indices, rows: Indices | None) -> Indices:
    """Return where each border lies among ascending rows (None: all rows)."""
    return borders if rows is None else np.searchsorted(rows, borders)


class OutputByGroup:
    """The result rows of a site by group, and then by cell. Counts what the operator emits (`OutputCounts`)."""

    def __init__(self, borders: SiteBorders) -> None:
        self.borders = borders
        self.total = np.zeros(len(borders), np.int64)

    def add(self, hashes: Words, rows: Indices | None = None) -> None:
        """Count result rows whose hashes are `hashes[rows]`."""
        self.borders.count(self.total, hashes, rows)

    def add_of_hash(self, hash_: int, rows: int) -> None:
        """Count result rows that all belong to one hash."""
        one = np.zeros_like(self.total)
        self.borders.count(one, np.asarray([hash_], np.uint64))
        self.total += one * rows


class Counted:
    """A cache of the rows of each group and cell in each slice. Slices do not change, so counts stay valid while the
    borders are the same. Invariant: `_counts` has the slices of the last call only."""

    def __init__(self) -> None:
        nothing = Borders.of(())
        self._borders = SiteBorders(nothing, nothing)
        self._counts: dict[Slice, IntArray] = {}

    def of(
        self, borders: SiteBorders, slices: Iterable[Slice], read: Callable[[Slice], Hashes | None]
    ) -> dict[Slice, IntArray]:
        """Return the counts of the slices that are cached or can be read now (`read` returns None otherwise)."""
        known = self._counts if self._borders.same(borders) else {}
        self._borders, self._counts = borders, {}
        for piece in slices:
            if piece in known:
                self._counts[piece] = known[piece]
            elif (hashes := read(piece)) is not None:
                self._counts[piece] = np.zeros(len(borders), np.int64)
                borders.count(self._counts[piece], hashes)
        return self._counts


def counted_at(runs: Path, subquery: int, site: int) -> Counted:
    """Return the cache of counts for a site, and evict the least recently used one if there are too many."""
    place = (runs, subquery, site)
    _COUNTED[place] = found = _COUNTED.pop(place, None) or Counted()
    if len(_COUNTED) > MOST_COUNTED:
        _COUNTED.pop(next(iter(_COUNTED)))
    return found


@dataclass(frozen=True, eq=False)
class KeyCounts:
    """The distinct hashes of a sorted column, and the first row of each. Invariant: `starts` has one entry more than
    `hashes`, which is the number of rows."""

    hashes: Hashes
    starts: IntArray

    @staticmethod
    def of(column: Hashes) -> KeyCounts:
        """Count the rows of each hash in a sorted column."""
        starts = np.flatnonzero(np.concatenate(([True], column[1:] != column[:-1]))) if len(column) else np.arange(0)
        return KeyCounts(column[starts], np.append(starts, len(column)))

    @cached_property
    def rows(self) -> IntArray:
        """Return the number of rows of each hash."""
        return np.diff(self.starts)

    def rows_of(self, hashes: Hashes) -> IntArray:
        """Return the number of rows of the given hashes; 0 for a hash that is not in the column."""
        begin, end = (np.searchsorted(self.hashes, hashes, side=side) for side in ("left", "right"))
        return np.asarray(self.starts[end] - self.starts[begin])

    def heaviest(self, most: int) -> Hashes:
        """Return `most` hashes with the most rows (all hashes if there are fewer), unsorted. Only hashes with at least
        as many rows as the `most`-th largest block maximum are partitioned: partitioning all hashes takes fifty times
        as long."""
        if len(self.hashes) <= most:
            return self.hashes
        largest = np.maximum.reduceat(self.rows, np.arange(0, len(self.rows), BLOCK_HASHES))
        least = np.partition(largest, -most)[-most] if len(largest) > most else 0
        able = np.flatnonzero(self.rows >= least)
        return self.hashes[able[np.argpartition(self.rows[able], -most)[-most:]]]
