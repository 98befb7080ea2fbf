"""The order in which rows leave for sites: those of the first site first, and those of each in order of hash.

Where the groups of sites are scattered over the hash space, rows in order of hash are cut into very many pieces. Rows
that are sorted in this order instead, when they are sorted anyway, are cut into one piece for each site.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from penstock.kernels.arrays import Words
from penstock.state.hash_ranges import Places

MOST_BITS = 16  # of a prefix: all of that length are in a table

Order = Callable[[Words], Words]  # for each hash a word, no two the same; rows are to be in order of them


def by_hash(hashes: Words) -> Words:
    return hashes


@dataclass(frozen=True, eq=False)
class SiteOrder:
    """Invariant: `ranks` has for every prefix of a hash, of `64 - shift` bits, its place in this order, each once;
    `firsts` the place of the first prefix of each site, and the number of prefixes."""

    shift: np.uint64
    ranks: Words
    firsts: Places

    @staticmethod
    def of(depths: Places, homes: Places, sites: int) -> SiteOrder | None:
        """For groups in order of hash, with the lengths of their prefixes and their sites. None where a prefix is too
        long for a table."""
        bits = int(depths.max())
        if not 0 < bits <= MOST_BITS:
            return None
        homes = np.repeat(homes, 1 << (bits - depths))
        ranks = np.empty(len(homes), np.uint64)
        by_site = np.argsort(homes.astype(np.uint16) if sites < 1 << 16 else homes, kind="stable")
        ranks[by_site] = np.arange(len(homes), dtype=np.uint64)
        counts = np.bincount(homes, minlength=sites)
        return SiteOrder(np.uint64(64 - bits), ranks, np.append(0, np.cumsum(counts)))

    def words(self, hashes: Words) -> Words:
        """The hashes with the places of their prefixes instead of these."""
        return (self._ranks_of(hashes) << self.shift) | (hashes & ((np.uint64(1) << self.shift) - np.uint64(1)))

    def cuts(self, hashes: Words) -> list[slice]:
        """The rows of each site in a column of hashes in this order."""
        return [slice(*borders) for borders in pairwise(np.searchsorted(self._ranks_of(hashes), self.firsts).tolist())]

    def _ranks_of(self, hashes: Words) -> Words:
        return self.ranks[(hashes >> self.shift).view(np.int64)]
