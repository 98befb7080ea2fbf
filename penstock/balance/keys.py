"""Statistics of single keys: the heaviest of a subquery, and those that are spread over cells. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from heapq import nlargest

import numpy as np
import numpy.typing as npt

MOST_KEYS = 16  # heaviest keys that are recorded per subquery


@dataclass(frozen=True)
class KeyLoad:
    """The rows that arrived for one hash, by port."""

    hash: int
    rows: tuple[int, ...]

    @property
    def total(self) -> int:
        return sum(self.rows)


def heaviest(loads: Iterable[KeyLoad]) -> tuple[KeyLoad, ...]:
    """Add up the loads of equal hashes and return the `MOST_KEYS` heaviest, heaviest first."""
    sums: dict[int, tuple[int, ...]] = {}
    for load in loads:
        known = sums.get(load.hash, (0,) * len(load.rows))
        sums[load.hash] = tuple(a + b for a, b in zip(known, load.rows, strict=True))
    return tuple(nlargest(MOST_KEYS, (KeyLoad(*item) for item in sums.items()), key=lambda load: load.total))


@dataclass(frozen=True, eq=False)
class CellLoads:
    """The statistics of cells. Invariant: the arrays have one entry per spread hash of the directory, in its order
    (axis 0); those of all sites also one per site (axis 1). The entry is 0 where a site has no cell of a hash.

    `cut` is the rows of the port that is distributed among the cells, `copied` the rows of other ports, which every
    cell receives. `done` is the rows processed, including rows that arrived earlier, `seconds` the time they took, and
    `output` the rows produced.
    """

    cut: npt.NDArray[np.int64]
    copied: npt.NDArray[np.int64]
    done: npt.NDArray[np.int64]
    seconds: npt.NDArray[np.float64]
    output: npt.NDArray[np.int64]

    def then(self, later: CellLoads) -> CellLoads:
        """Add the statistics of a later epoch, under the same directory."""
        return CellLoads(**{name: getattr(self, name) + getattr(later, name) for name in _LOADS})

    @property
    def rows(self) -> npt.NDArray[np.int64]:
        """Return the rows that arrived at each site, copies included."""
        return np.asarray((self.cut + self.copied).sum(axis=0))

    @property
    def different_rows(self) -> int:
        """Return the rows that arrived at all sites together, each copied row counted once."""
        return int(self.cut.sum() + self.copied.max(axis=1, initial=0).sum())

    @staticmethod
    def of_sites(sites: Sequence[CellLoads]) -> CellLoads:
        """Combine the statistics of single sites into arrays with a site axis."""
        return CellLoads(**{name: np.stack([getattr(site, name) for site in sites], axis=1) for name in _LOADS})


_LOADS = tuple(field.name for field in fields(CellLoads))
_NONE = np.zeros((0, 1), np.int64)
NO_CELLS = CellLoads(_NONE, _NONE, _NONE, np.zeros((0, 1)), _NONE)
