"""What changes hands when one directory takes the place of another. Pure.

Where the homes of groups are scattered, a site has hundreds of stretches of hashes, with hashes of others between them.
Cutting state at all their borders would leave a slice for each. A site's slices hold no rows of others, though, so they
are cut only where a neighbour in the *same old home* gets another site.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from penstock.state.directory import HASH_END, Directory, Hashes, HashRange, Places


@dataclass(frozen=True)
class Share:
    """What goes from an old site to a new one, or stays where the two are the same: all that the old site has on a
    range, and perhaps holes in it that were never the old site's."""

    source: int
    target: int
    range: HashRange


class Handover:
    """Invariant: `_lows` are the borders of either directory, in order. From each up to the next, all hashes lived at
    one site, `_sources`, and are to live at one, `_targets`."""

    def __init__(self, before: Directory, after: Directory) -> None:
        (old, homes), (new, new_homes) = before.stretches, after.stretches
        self._lows: Hashes = np.union1d(old, new)
        self._sources: Places = homes[np.searchsorted(old, self._lows, side="right") - 1]
        self._targets: Places = new_homes[np.searchsorted(new, self._lows, side="right") - 1]

    def same_home(self, target: int) -> int | None:
        """The old site whose home is all that a new one gets, and the other way round; None where there is none."""
        mine = self._targets == target
        sources = np.unique(self._sources[mine])
        if len(sources) != 1 or not mine[self._sources == sources[0]].all():
            return None
        return int(sources[0])

    @cached_property
    def state(self) -> list[Share]:
        """For rows: few shares, whose holes may be hashes that the new site gets from elsewhere."""
        order = np.argsort(self._sources, kind="stable")
        return self._shares(order, np.zeros(max(0, len(order) - 1), np.bool_))

    @cached_property
    def marks(self) -> list[Share]:
        """For what is said of all hashes of a range: shares whose holes are neither the old nor the new site's."""
        by_source = np.argsort(self._sources, kind="stable")
        rank = np.empty(len(by_source), np.int64)
        rank[by_source] = np.arange(len(by_source))
        order = np.argsort(self._targets, kind="stable")
        return self._shares(order, np.diff(rank[order]) != 1)

    def _shares(self, order: Places, apart: npt.NDArray[np.bool_]) -> list[Share]:
        """One share for neighbours in an order that have the same two sites and are not to be kept apart."""
        sources, targets = self._sources[order], self._targets[order]
        new = (np.diff(sources) != 0) | (np.diff(targets) != 0) | apart
        firsts = np.concatenate(([0], np.flatnonzero(new) + 1))
        lasts = np.append(firsts[1:], len(order)) - 1
        highs = [*self._lows[1:].tolist(), HASH_END]
        return [
            Share(int(sources[a]), int(targets[a]), HashRange(int(self._lows[order[a]]), highs[order[b]]))
            for a, b in zip(firsts, lasts, strict=True)
        ]
