"""Probes: the hash and time interval in which the partners of a row lie."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from penstock.kernels.arrays import Flags, Indices, Times, Words
from penstock.operators.band_join.pieces import Piece
from penstock.progress.mark import MAX_TIME, MIN_TIME

_FURTHEST = MAX_TIME - MIN_TIME  # shifted by this, every time reaches a limit


@dataclass(frozen=True)
class Probes:
    """Search intervals: the partners of row `positions[n]` have the hash `hashes[n]` and a time from `least[n]` to
    `most[n]`.

    Invariant: sorted by hash; all columns have the same length.
    """

    positions: Indices
    hashes: Words
    least: Times
    most: Times

    def __len__(self) -> int:
        return len(self.hashes)

    def at(self, which: slice | Indices | Flags) -> Probes:
        """Return the selected probes."""
        return Probes(self.positions[which], self.hashes[which], self.least[which], self.most[which])

    def within(self, piece: Piece) -> Probes:
        """Return the probes that may have a partner in the piece."""
        if not len(piece):
            return self.at(slice(0, 0))
        low = int(np.searchsorted(self.hashes, piece.hashes[0]))
        high = int(np.searchsorted(self.hashes, piece.hashes[-1], side="right"))
        near = self.at(slice(low, high))
        meets = (near.most >= piece.least) & (near.least <= piece.largest)
        return near if meets.all() else near.at(np.flatnonzero(meets))


def probes(hashes: Words, intervals: Iterable[tuple[Times, int | None, int | None]]) -> Probes:
    """Build the probes for partners whose time lies, for every (times, before, after), in [times - before, times +
    after] (None: no such bound). Rows without a possible partner are excluded."""
    least, most = np.full(len(hashes), MIN_TIME), np.full(len(hashes), MAX_TIME)
    possible = np.ones(len(hashes), dtype=np.bool_)
    for times, before, after in intervals:
        if before is not None:
            np.maximum(least, _shifted(times, -before), out=least)
            possible &= ~_beyond(times, -before, above=True)
        if after is not None:
            np.minimum(most, _shifted(times, after), out=most)
            possible &= ~_beyond(times, after, above=False)
    possible &= least <= most
    found = Probes(np.arange(len(hashes)), hashes, least, most)
    return found if possible.all() else found.at(np.flatnonzero(possible))


def _shifted(times: Times, by: int) -> Times:
    """Return the times shifted by a span of any size, saturated at the limits of a 64-bit time."""
    by = max(-_FURTHEST, min(_FURTHEST, by))
    while by:
        step = max(-MAX_TIME, min(MAX_TIME, by))
        by -= step
        times = (np.minimum(times, MAX_TIME - step) if step > 0 else np.maximum(times, MIN_TIME - step)) + step
    return times


def _beyond(times: Times, by: int, above: bool) -> Flags:
    """Return flags of the times that leave the 64-bit range above (or below) when shifted by `by`."""
    return times > MAX_TIME - by if above else times < MIN_TIME - by
