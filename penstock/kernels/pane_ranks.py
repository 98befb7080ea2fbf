"""Pane ranks: starts of panes as small integers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from penstock.kernels.arrays import Indices


@dataclass(frozen=True)
class PaneRanks:
    """The map from panes to ranks, counted from the earliest pane.

    Invariant: every pane is `least` plus a multiple of `width`, and `many` is the number of panes from the earliest to
    the latest. Differences are computed as unsigned integers, because they may exceed a signed 64-bit integer.
    """

    least: np.int64
    width: int
    many: int

    @classmethod
    def of(cls, panes: Indices, width: int) -> PaneRanks:
        """Return the ranking of `panes`, which must not be empty and must differ by multiples of `width`."""
        least, largest = panes.min(), panes.max()
        return cls(least, width, (int(largest) - int(least)) // width + 1)

    @property
    def bits(self) -> int:
        """Return the number of bits of the largest rank."""
        return (self.many - 1).bit_length()

    def ranks(self, panes: Indices, out: Indices) -> None:
        """Write the ranks of `panes` to `out`."""
        unsigned = out.view(np.uint64)
        np.subtract(panes.view(np.uint64), self.least.view(np.uint64), out=unsigned)
        np.floor_divide(unsigned, np.uint64(self.width), out=unsigned)

    def panes(self, ranks: Indices) -> None:
        """Replace ranks by their panes in place: the inverse of `ranks`."""
        unsigned = ranks.view(np.uint64)
        unsigned *= np.uint64(self.width)
        unsigned += self.least.view(np.uint64)
