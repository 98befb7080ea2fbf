"""Site order: rows ordered by destination site, then by hash.

If the groups of the sites are scattered over the hash space, rows in order of hash are cut into very many pieces. Rows
sorted in site order, where they have to be sorted anyway, are cut into one piece per site.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from penstock.kernels.arrays import Words
from penstock.state.hash_ranges import Places

MOST_BITS = 16  # the longest prefix for which a lookup table of all prefixes is built

Order = Callable[[Words], Words]  # maps hashes to sort keys, one to one


def by_hash(hashes: Words) -> Words:
    """Return the hashes unchanged: the order by hash."""
    return hashes


@dataclass(frozen=True, eq=False)
class SiteOrder:
    """A lookup table that maps hashes to sort keys in site order.

    Invariant: `ranks` has the rank in site order of each prefix of `64 - shift` bits, and is a permutation; `firsts`
    has the rank of each site's first prefix, and the number of prefixes at the end.
    """

    shift: np.uint64
    ranks: Words
    firsts: Places

    @staticmethod
    def of(depths: Places, homes: Places, sites: int) -> SiteOrder | None:
        """Build the table from the prefix lengths and sites of groups in order of hash. Return None if a prefix is
        longer than MOST_BITS, or if there is only one group."""
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
        """Return the sort key of each hash: its prefix replaced by the rank of the prefix."""
        return (self._ranks_of(hashes) << self.shift) | (hashes & ((np.uint64(1) << self.shift) - np.uint64(1)))

    def cuts(self, hashes: Words) -> list[slice]:
        """Return the rows of each site as a slice. `hashes` must be in site order."""
        return [slice(*borders) for borders in pairwise(np.searchsorted(self._ranks_of(hashes), self.firsts).tolist())]

    def _ranks_of(self, hashes: Words) -> Words:
        """Return the rank of each hash's prefix."""
        return self.ranks[(hashes >> self.shift).view(np.int64)]
