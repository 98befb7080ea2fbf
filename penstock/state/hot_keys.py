"""Cells: how the rows of one hot key hash are spread over several sites.

The rows of one port, the cut port, are partitioned: each is stored in one cell. The rows of all other ports are
replicated: each is stored in every cell. A combination of rows contains exactly one row of the cut port, so its rows
meet in exactly one cell, and that cell holds every row that a row of the cut port can match.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import numpy.typing as npt

NO_SITE = -1  # in place of a site number: no site


@dataclass(frozen=True)
class Cells:
    """The cells of a spread hash: the port that is cut, and the site of each cell. `gathering`: the hash returns to one
    site as soon as it has nothing pending; until then it behaves as before.

    Invariant: no two cells are at one site, because a site cannot distinguish their rows.
    """

    hash: int
    cut: int
    sites: tuple[int, ...]
    gathering: bool = False

    def like(self, other: Cells) -> bool:
        """Return whether cell n holds the same rows as cell n of `other`. Their sites may differ."""
        return (self.hash, self.cut, len(self.sites)) == (other.hash, other.cut, len(other.sites))

    def within(self, sites: int) -> Cells:
        """Return the cells with all sites below `sites`, which must be at least the number of cells. Cells at removed
        sites move to sites without a cell of this hash."""
        free = iter([site for site in range(sites) if site not in self.sites])
        return replace(self, sites=tuple(site if site < sites else next(free) for site in self.sites))

    def parts_of(self, rows: slice, turn: int) -> tuple[slice, ...]:
        """Cut contiguous `rows` of the cut port into nearly equal parts, and return one part per cell. Cell `turn %
        cells` gets the first part; varying `turn` distributes rows that arrive one by one."""
        count, parts = rows.stop - rows.start, len(self.sites)
        borders = [rows.start + n * count // parts for n in range(parts + 1)]
        places = [(n - turn) % parts for n in range(parts)]
        return tuple(slice(borders[place], borders[place + 1]) for place in places)


def too_wide(spread: Iterable[Cells], sites: int) -> tuple[Cells, ...]:
    """Return the entries with more cells than `sites`."""
    return tuple(cells for cells in spread if len(cells.sites) > sites)


def are_sound(spread: Sequence[Cells], sites: int) -> bool:
    """Return whether `spread` satisfies the invariants of a directory with this number of sites."""
    hashes = [cells.hash for cells in spread]
    in_order = all(low < high for low, high in pairwise([-1, *hashes, 2**64]))
    apart = all(len(set(cells.sites)) == len(cells.sites) >= 1 for cells in spread)
    return in_order and apart and all(0 <= site < sites for cells in spread for site in cells.sites)


def taken_out(
    lows: npt.NDArray[np.uint64], homes: npt.NDArray[np.int64], hashes: Sequence[int]
) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.int64]]:
    """Return home ranges, given by their first hashes and sites, with each of `hashes` as a range of its own at
    NO_SITE."""
    gone = np.asarray(hashes, np.uint64)
    behind = gone[gone < np.iinfo(np.uint64).max] + np.uint64(1)
    begins = np.unique(np.concatenate((lows, gone, behind)))
    owners = homes[np.searchsorted(lows, begins, side="right") - 1]
    owners[np.searchsorted(begins, gone)] = NO_SITE
    return begins, owners
