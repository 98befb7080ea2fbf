"""Ranges of hashes, operations on sorted sets of ranges, and the order of rows by the sites that own their ranges.

If the groups of the sites are scattered over the hash space, rows in order of hash are cut into very many pieces. In
site order, which is by destination site and then by hash, they are cut into one piece per site. Where rows have to be
sorted anyway, it costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import isqrt

import numpy as np
import numpy.typing as npt

from penstock.kernels.arrays import Words

HASH_END = 2**64  # the end of the last range: ranges are half-open, [low, high), in Python integers
Hashes = npt.NDArray[np.uint64]
Places = npt.NDArray[np.int64]


MOST_BITS = 16  # the longest prefix for which a lookup table of all prefixes is built


@dataclass(frozen=True, order=True)
class HashRange:
    """The hashes h with low <= h < high. Invariant: 0 <= low < high <= 2**64."""

    low: int
    high: int

    def intersect(self, other: HashRange) -> HashRange | None:
        """Return the hashes in both ranges, or None if there are none."""
        low, high = max(self.low, other.low), min(self.high, other.high)
        return HashRange(low, high) if low < high else None

    def rows(self, hashes: Hashes) -> slice:
        """Return the rows of this range in a sorted column of hashes, as a slice."""
        first = place_of(self.low, hashes) if self.low else 0
        last = place_of(self.high, hashes) if self.high < HASH_END else len(hashes)
        return slice(first, last)


def place_of(hash_: int, hashes: Hashes) -> int:
    """Return how many hashes of a sorted column are smaller. Looks where the place is expected, since hashes are
    uniform: a search through a whole column would make pages all over a mapped file resident."""
    wanted, count = np.uint64(hash_), len(hashes)
    if count < _LONG or not (first := int(hashes[0])) < hash_ <= (last := int(hashes[-1])):
        return int(np.searchsorted(hashes, wanted))
    expected, away = (hash_ - first) * count // (last - first), 8 * isqrt(count)  # sixteen standard deviations at least
    low, high = max(0, expected - away), min(count, expected + away)
    place = low + int(np.searchsorted(hashes[low:high], wanted))
    known = (place > low or low == 0) and (place < high or high == count)
    return place if known else int(np.searchsorted(hashes, wanted))


EVERYTHING = HashRange(0, HASH_END)
_LONG = 1 << 14  # hashes: shorter columns are searched as a whole


def point(hash_: int) -> HashRange:
    """Return the range of a single hash."""
    return HashRange(hash_, hash_ + 1)


def remaining(ranges: Iterable[HashRange], taken: Iterable[HashRange]) -> list[HashRange]:
    """Return the hashes of `ranges` that are not in `taken`, as sorted ranges. Neither argument may contain overlapping
    ranges."""
    left: list[HashRange] = []
    borders, place = sorted(taken), 0
    for part in sorted(ranges):
        low = part.low
        while place < len(borders) and borders[place].low < part.high:
            if low < borders[place].low:
                left.append(HashRange(low, borders[place].low))
            low = max(low, borders[place].high)
            if low >= part.high:
                break  # this border may also overlap the next part
            place += 1
        left += [HashRange(low, part.high)] if low < part.high else []
    return left


def coalesced(ranges: Iterable[HashRange]) -> list[HashRange]:
    """Return the hashes of all ranges, which may overlap, as sorted ranges that neither overlap nor touch."""
    found: list[HashRange] = []
    for part in sorted(ranges):
        if found and part.low <= found[-1].high:
            found[-1] = HashRange(found[-1].low, max(found[-1].high, part.high))
        else:
            found.append(part)
    return found


def hull(ranges: Sequence[HashRange]) -> HashRange:
    """Return the shortest range that contains all of these; all hashes if there are none."""
    return HashRange(min(part.low for part in ranges), max(part.high for part in ranges)) if ranges else EVERYTHING


def first_hashes(ranges: Iterable[HashRange], width: int) -> Iterator[HashRange]:
    """Yield ranges from the start until they cover `width` hashes; the last one is cut."""
    for part in ranges:
        if width <= 0:
            return
        yield HashRange(part.low, min(part.high, part.low + width))
        width -= part.high - part.low


def width_of(ranges: Iterable[HashRange]) -> int:
    """Return the number of hashes in the ranges."""
    return sum(part.high - part.low for part in ranges)


def common(some: Sequence[HashRange], others: Sequence[HashRange]) -> list[HashRange]:
    """Return the intersection of two sets of ranges. Each must be sorted and without overlap."""
    found: list[HashRange] = []
    here = there = 0
    while here < len(some) and there < len(others):
        if (both := some[here].intersect(others[there])) is not None:
            found.append(both)
        if some[here].high <= others[there].high:
            here += 1
        else:
            there += 1
    return found


def apart(ranges: Sequence[HashRange], others: Sequence[HashRange]) -> list[HashRange]:
    """Return the same hashes as `ranges`, in order, cut at the borders of `others`: no range is partly in `others`."""
    return sorted([*remaining(ranges, others), *common(ranges, others)]) if others else list(ranges)


def joined(parts: Sequence[HashRange], own: Sequence[HashRange]) -> list[HashRange]:
    """Coalesce `parts`, a sorted subset of `own`: neighbours become one range unless another range of `own` lies
    between them."""
    found: list[HashRange] = []
    place = 0  # the ranges of `own` before this index end no later than the last range of `found`
    for part in parts:
        while found and place < len(own) and own[place].high <= found[-1].high:
            place += 1
        apart = not found or (part.low > found[-1].high and place < len(own) and own[place].low < part.low)
        found.append(part if apart else HashRange(found.pop().low, part.high))
    return found


HashOrder = Callable[[Words], Words]  # maps hashes to sort keys, one to one


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
