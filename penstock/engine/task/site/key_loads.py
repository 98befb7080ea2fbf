"""What a site tells of single keys: those that were heaviest in this epoch, and its cells.

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

TOLD = 4  # keys of each port
BLOCK = 64  # hashes

Columns = Sequence[Sequence[Hashes]]


def without(hashes: Hashes, ranges: Sequence[HashRange]) -> Hashes:
    """A sorted column without some ranges of hashes."""
    gone = [np.arange(len(hashes))[part.rows(hashes)] for part in ranges]
    return np.delete(hashes, np.concatenate(gone)) if gone else hashes


@dataclass(frozen=True, eq=False)
class KeyCounts:
    """The hashes of a sorted column, each once, and where their rows begin in it. Invariant: `starts` has one entry
    more than `hashes`, the number of rows."""

    hashes: Hashes
    starts: Counts

    @staticmethod
    def of(column: Hashes) -> KeyCounts:
        starts = np.flatnonzero(np.concatenate(([True], column[1:] != column[:-1]))) if len(column) else np.arange(0)
        return KeyCounts(column[starts], np.append(starts, len(column)))

    @cached_property
    def rows(self) -> Counts:
        """How many each hash has."""
        return np.diff(self.starts)

    def rows_of(self, hashes: Hashes) -> Counts:
        """How many some hashes have, which need not be in the column."""
        begin, end = (np.searchsorted(self.hashes, hashes, side=side) for side in ("left", "right"))
        return np.asarray(self.starts[end] - self.starts[begin])

    def heaviest(self, most: int) -> Hashes:
        """So many of the hashes with the most rows. They have at least as many as the largest of blocks have, and few
        others do: to part all hashes takes fifty times as long."""
        if len(self.hashes) <= most:
            return self.hashes
        largest = np.maximum.reduceat(self.rows, np.arange(0, len(self.rows), BLOCK))
        least = np.partition(largest, -most)[-most] if len(largest) > most else 0
        able = np.flatnonzero(self.rows >= least)
        return self.hashes[able[np.argpartition(self.rows[able], -most)[-most:]]]


def heavy_keys(ports: Sequence[Sequence[KeyCounts]]) -> tuple[KeyLoad, ...]:
    """The heaviest keys of each column of each port, with what they have in all."""
    heavy = [counts.heaviest(TOLD) for port in ports for counts in port]
    found = np.unique(np.concatenate(heavy)) if heavy else np.zeros(0, np.uint64)
    none = np.zeros(len(found), np.int64)
    rows = np.stack([sum((counts.rows_of(found) for counts in port), none) for port in ports], axis=1)
    return tuple(KeyLoad(hash_, tuple(by_port)) for hash_, by_port in zip(found.tolist(), rows.tolist(), strict=True))


def rows_of(columns: Sequence[Hashes], part: HashRange) -> int:
    found = (part.rows(hashes) for hashes in columns)
    return sum(rows.stop - rows.start for rows in found)


def cell_loads(
    directory: Directory, site: int, columns: Columns, done: Sequence[int], seconds: Figures, output: Figures
) -> CellLoads:
    """What the cells of a site came to; `done`, `seconds` and `output` have one entry for each that it has."""
    cut, copied, worked_on = np.zeros((3, len(directory.spread)), np.int64)
    took, put_out = np.zeros((2, len(directory.spread)))
    own = [n for n, cells in enumerate(directory.spread) if site in cells.sites]
    for n in own:
        cut[n], copied[n] = _parted(directory.spread[n], columns)
    worked_on[own], took[own], put_out[own] = done, seconds, output
    return CellLoads(cut, copied, worked_on, took, put_out)


def _parted(cells: Cells, columns: Columns) -> tuple[int, int]:
    counts = [rows_of(port, point(cells.hash)) for port in columns]
    return counts[cells.cut], sum(counts) - counts[cells.cut]
