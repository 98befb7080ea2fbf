"""Statistics of single keys at a site: the heaviest keys of this epoch, and the cells of the site.

As with groups, every count is a search in a sorted column of hashes. `columns[port]` are such columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from penstock.balance.keys import CellLoads, KeyLoad
from penstock.balance.stats import Counts, Figures
from penstock.state.directory import Directory
from penstock.state.hash_ranges import Hashes, HashRange, point
from penstock.state.hot_keys import Cells

TOLD = 4  # heaviest keys reported for each column
BLOCK = 64  # hashes per block when searching for the heaviest keys

Columns = Sequence[Sequence[Hashes]]


def without(hashes: Hashes, ranges: Sequence[HashRange]) -> Hashes:
    """Return a sorted column without the hashes of some ranges."""
    gone = [np.arange(len(hashes))[part.rows(hashes)] for part in ranges]
    return np.delete(hashes, np.concatenate(gone)) if gone else hashes


@dataclass(frozen=True, eq=False)
class KeyCounts:
    """The distinct hashes of a sorted column, and the first row of each. Invariant: `starts` has one entry more than
    `hashes`, which is the number of rows."""

    hashes: Hashes
    starts: Counts

    @staticmethod
    def of(column: Hashes) -> KeyCounts:
        """Count the rows of each hash in a sorted column."""
        starts = np.flatnonzero(np.concatenate(([True], column[1:] != column[:-1]))) if len(column) else np.arange(0)
        return KeyCounts(column[starts], np.append(starts, len(column)))

    @cached_property
    def rows(self) -> Counts:
        """Return the number of rows of each hash."""
        return np.diff(self.starts)

    def rows_of(self, hashes: Hashes) -> Counts:
        """Return the number of rows of the given hashes; 0 for a hash that is not in the column."""
        begin, end = (np.searchsorted(self.hashes, hashes, side=side) for side in ("left", "right"))
        return np.asarray(self.starts[end] - self.starts[begin])

    def heaviest(self, most: int) -> Hashes:
        """Return `most` hashes with the most rows (all hashes if there are fewer), unsorted. Only hashes with at least
        as many rows as the `most`-th largest block maximum are partitioned: partitioning all hashes takes fifty times
        as long."""
        if len(self.hashes) <= most:
            return self.hashes
        largest = np.maximum.reduceat(self.rows, np.arange(0, len(self.rows), BLOCK))
        least = np.partition(largest, -most)[-most] if len(largest) > most else 0
        able = np.flatnonzero(self.rows >= least)
        return self.hashes[able[np.argpartition(self.rows[able], -most)[-most:]]]


def heavy_keys(ports: Sequence[Sequence[KeyCounts]]) -> tuple[KeyLoad, ...]:
    """Return the heaviest keys of each column, with their rows by port over all columns."""
    heavy = [counts.heaviest(TOLD) for port in ports for counts in port]
    found = np.unique(np.concatenate(heavy)) if heavy else np.zeros(0, np.uint64)
    none = np.zeros(len(found), np.int64)
    rows = np.stack([sum((counts.rows_of(found) for counts in port), none) for port in ports], axis=1)
    return tuple(KeyLoad(hash_, tuple(by_port)) for hash_, by_port in zip(found.tolist(), rows.tolist(), strict=True))


def rows_of(columns: Sequence[Hashes], part: HashRange) -> int:
    """Return the number of rows of some sorted columns in a range."""
    found = (part.rows(hashes) for hashes in columns)
    return sum(rows.stop - rows.start for rows in found)


def cell_loads(
    directory: Directory, site: int, columns: Columns, done: Sequence[int], seconds: Figures, output: Figures
) -> CellLoads:
    """Return the statistics of the cells of a site. `done`, `seconds` and `output` have one entry for each cell of the
    site."""
    cut, copied, worked_on = np.zeros((3, len(directory.spread)), np.int64)
    took, put_out = np.zeros((2, len(directory.spread)))
    own = [n for n, cells in enumerate(directory.spread) if site in cells.sites]
    for n in own:
        cut[n], copied[n] = _parted(directory.spread[n], columns)
    worked_on[own], took[own], put_out[own] = done, seconds, output
    return CellLoads(cut, copied, worked_on, took, put_out)


def _parted(cells: Cells, columns: Columns) -> tuple[int, int]:
    """Return the rows of a spread hash: on the port that is cut, and on the others, which are copied to every cell."""
    counts = [rows_of(port, point(cells.hash)) for port in columns]
    return counts[cells.cut], sum(counts) - counts[cells.cut]
