"""What single keys came to: the heaviest of a subquery, and those that live in cells. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from heapq import nlargest

import numpy as np
import numpy.typing as npt

MOST_KEYS = 16  # heaviest keys that are known of a subquery


@dataclass(frozen=True)
class KeyLoad:
    """How many rows of a hash came, port by port."""

    hash: int
    rows: tuple[int, ...]

    @property
    def total(self) -> int:
        return sum(self.rows)


def heaviest(loads: Iterable[KeyLoad]) -> tuple[KeyLoad, ...]:
    """The heaviest keys of what was told at several times or places."""
    sums: dict[int, tuple[int, ...]] = {}
    for load in loads:
        known = sums.get(load.hash, (0,) * len(load.rows))
        sums[load.hash] = tuple(a + b for a, b in zip(known, load.rows, strict=True))
    return tuple(nlargest(MOST_KEYS, (KeyLoad(*item) for item in sums.items()), key=lambda load: load.total))


@dataclass(frozen=True, eq=False)
class CellLoads:
    """What cells came to: rows of the cut port, rows of the others, of which every cell gets the same, rows that were
    worked on, also such that had come before, seconds of work, and rows that were put out. Invariant: an entry for
    each spread hash of the directory, in its order; at one site, or of all sites as the second axis. Where a site
    has no cell of a hash, its entry is 0."""

    cut: npt.NDArray[np.int64]
    copied: npt.NDArray[np.int64]
    done: npt.NDArray[np.int64]
    seconds: npt.NDArray[np.float64]
    output: npt.NDArray[np.float64]

    def then(self, later: CellLoads) -> CellLoads:
        return CellLoads(**{name: getattr(self, name) + getattr(later, name) for name in _FIGURES})

    @property
    def rows(self) -> npt.NDArray[np.int64]:
        """What came to each site."""
        return np.asarray((self.cut + self.copied).sum(axis=0))

    @property
    def different_rows(self) -> int:
        """Those of all sites, a row and its copies counted once."""
        return int(self.cut.sum() + self.copied.max(axis=1, initial=0).sum())

    @staticmethod
    def of_sites(sites: Sequence[CellLoads]) -> CellLoads:
        return CellLoads(**{name: np.stack([getattr(site, name) for site in sites], axis=1) for name in _FIGURES})


_FIGURES = tuple(field.name for field in fields(CellLoads))
_NONE = np.zeros((0, 1), np.int64)
NO_CELLS = CellLoads(_NONE, _NONE, _NONE, np.zeros((0, 1)), np.zeros((0, 1)))
