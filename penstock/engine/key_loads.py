"""What a site tells of single keys: those that were heaviest in this epoch, and its cells.

As with groups, every count is a search in a sorted column of hashes. `columns[port]` are such columns.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from penstock.balance.keys import CellLoads, KeyLoad
from penstock.balance.round import Figures
from penstock.state.cells import Cells
from penstock.state.directory import Directory, Hashes, HashRange, point

TOLD = 4  # keys of each port

Columns = Sequence[Sequence[Hashes]]


def without(hashes: Hashes, ranges: Sequence[HashRange]) -> Hashes:
    """A sorted column without some ranges of hashes."""
    gone = [np.arange(len(hashes))[part.rows(hashes)] for part in ranges]
    return np.delete(hashes, np.concatenate(gone)) if gone else hashes


def heavy_keys(columns: Columns) -> tuple[KeyLoad, ...]:
    """The heaviest keys of each port, with what they have in all."""
    found = {int(hash_) for port in columns for hashes in port for hash_ in _heaviest(hashes)}
    return tuple(KeyLoad(hash_, tuple(rows_of(port, point(hash_)) for port in columns)) for hash_ in sorted(found))


def _heaviest(hashes: Hashes) -> Hashes:
    starts = np.flatnonzero(np.concatenate(([True], hashes[1:] != hashes[:-1]))) if len(hashes) else np.arange(0)
    lengths = np.diff(starts, append=len(hashes))
    if len(starts) > TOLD:  # to sort all of them takes three times as long
        starts = starts[np.argpartition(lengths, -TOLD)[-TOLD:]]
    return hashes[starts]


def rows_of(columns: Sequence[Hashes], part: HashRange) -> int:
    found = (part.rows(hashes) for hashes in columns)
    return sum(rows.stop - rows.start for rows in found)


def cell_loads(directory: Directory, site: int, columns: Columns, done: Sequence[int], seconds: Figures) -> CellLoads:
    """What the cells of a site came to; `done` and `seconds` have one entry for each that it has."""
    cut, copied, worked_on = np.zeros((3, len(directory.spread)), np.int64)
    took = np.zeros(len(directory.spread))
    own = [n for n, cells in enumerate(directory.spread) if site in cells.sites]
    for n in own:
        cut[n], copied[n] = _parted(directory.spread[n], columns)
    worked_on[own], took[own] = done, seconds
    return CellLoads(cut, copied, worked_on, took)


def _parted(cells: Cells, columns: Columns) -> tuple[int, int]:
    counts = [rows_of(port, point(cells.hash)) for port in columns]
    return counts[cells.cut], sum(counts) - counts[cells.cut]
