"""Panes as small numbers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from penstock.kernels.arrays import Indices


@dataclass(frozen=True)
class Ranking:
    """Each pane's number, counted from the earliest one. Invariant: every pane is a multiple of `width` above `least`,
    and there are `many` from the earliest to the latest. Differences are unsigned, for panes may lie further apart than
    a signed number can say."""

    least: np.int64
    width: int
    many: int

    @classmethod
    def of(cls, panes: Indices, width: int) -> Ranking:
        least, largest = panes.min(), panes.max()
        return cls(least, width, (int(largest) - int(least)) // width + 1)

    @property
    def bits(self) -> int:
        """How many bits the largest number takes."""
        return (self.many - 1).bit_length()

    def ranks(self, panes: Indices, out: Indices) -> None:
        """Puts the numbers of some panes into `out`."""
        unsigned = out.view(np.uint64)
        np.subtract(panes.view(np.uint64), self.least.view(np.uint64), out=unsigned)
        np.floor_divide(unsigned, np.uint64(self.width), out=unsigned)

    def panes(self, ranks: Indices) -> None:
        """The other way round, in place."""
        unsigned = ranks.view(np.uint64)
        unsigned *= np.uint64(self.width)
        unsigned += self.least.view(np.uint64)
