"""Cells: a hash whose rows are too much for one site lives at several.

The rows of one port, the cut one, are dealt out: each is at one of the cells. Those of all other ports are copied: each
is at every cell. So the rows of a combination, of which exactly one is of the cut port, meet in exactly one cell, and a
cell has all that a row of the cut port can meet.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import numpy.typing as npt

NOBODY = -1  # where a site is expected


@dataclass(frozen=True)
class Cells:
    """A spread hash, the port that is cut, and the site of each cell. `gathering`: it is to live at one site again as
    soon as nothing of it is pending; until then nothing differs.

    Invariant: no two cells are at one site, for a site could not tell their rows apart.
    """

    hash: int
    cut: int
    sites: tuple[int, ...]
    gathering: bool = False

    def like(self, other: Cells) -> bool:
        """Whether cell n of the one holds what cell n of the other does; each may be at any site."""
        return (self.hash, self.cut, len(self.sites)) == (other.hash, other.cut, len(other.sites))

    def within(self, sites: int) -> Cells:
        """Over sites below a number, which is not less than the number of cells: those that are further go to sites
        that have none of it."""
        free = iter([site for site in range(sites) if site not in self.sites])
        return replace(self, sites=tuple(site if site < sites else next(free) for site in self.sites))

    def dealt(self, rows: slice, turn: int) -> tuple[slice, ...]:
        """For each cell its part of some neighbouring rows of the cut port: equal parts, or nearly so. Which cell gets
        the first is told by `turn`, so that where rows come one by one they do not all go to the same."""
        count, parts = rows.stop - rows.start, len(self.sites)
        borders = [rows.start + n * count // parts for n in range(parts + 1)]
        places = [(n - turn) % parts for n in range(parts)]
        return tuple(slice(borders[place], borders[place + 1]) for place in places)


def too_wide(spread: Iterable[Cells], sites: int) -> tuple[Cells, ...]:
    """Those with more cells than there are to be sites."""
    return tuple(cells for cells in spread if len(cells.sites) > sites)


def are_sound(spread: Sequence[Cells], sites: int) -> bool:
    """Whether they may be those of a directory with so many sites."""
    hashes = [cells.hash for cells in spread]
    in_order = all(low < high for low, high in pairwise([-1, *hashes, 2**64]))
    apart = all(len(set(cells.sites)) == len(cells.sites) >= 1 for cells in spread)
    return in_order and apart and all(0 <= site < sites for cells in spread for site in cells.sites)


def taken_out(
    lows: npt.NDArray[np.uint64], homes: npt.NDArray[np.int64], hashes: Sequence[int]
) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.int64]]:
    """Stretches of hashes, by where each begins and its site, with some hashes as stretches of nobody's."""
    gone = np.asarray(hashes, np.uint64)
    behind = gone[gone < np.iinfo(np.uint64).max] + np.uint64(1)
    begins = np.unique(np.concatenate((lows, gone, behind)))
    owners = homes[np.searchsorted(lows, begins, side="right") - 1]
    owners[np.searchsorted(begins, gone)] = NOBODY
    return begins, owners
