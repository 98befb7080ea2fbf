"""The directory: which site is home to which partition group.

A partition group is a prefix of the 64-bit key hash, that is, a range of it. The directory is extendible hashing: its
prefixes are prefix-free and cover the whole hash space, each mapped to one site.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby

import numpy as np
import numpy.typing as npt

HASH_END = 2**64  # hash ranges are half-open, [low, high), in Python integers: 2**64 is the end of the last one
Hashes = npt.NDArray[np.uint64]


@dataclass(frozen=True, order=True)
class HashRange:
    """The hashes h with low <= h < high. Invariant: 0 <= low < high <= 2**64."""

    low: int
    high: int

    def intersect(self, other: HashRange) -> HashRange | None:
        low, high = max(self.low, other.low), min(self.high, other.high)
        return HashRange(low, high) if low < high else None

    def rows(self, hashes: Hashes) -> slice:
        """The rows of this range in a sorted column of hashes."""
        first = int(np.searchsorted(hashes, np.uint64(self.low))) if self.low else 0
        last = int(np.searchsorted(hashes, np.uint64(self.high))) if self.high < HASH_END else len(hashes)
        return slice(first, last)


EVERYTHING = HashRange(0, HASH_END)


def remaining(ranges: Iterable[HashRange], taken: Iterable[HashRange]) -> list[HashRange]:
    """What is left of some ranges without others. The ranges of neither set overlap."""
    left: list[HashRange] = []
    borders = sorted(taken)
    for part in sorted(ranges):
        low = part.low
        for other in borders:
            if (common := part.intersect(other)) is not None:
                left += [HashRange(low, common.low)] if low < common.low else []
                low = common.high
        left += [HashRange(low, part.high)] if low < part.high else []
    return left


@dataclass(frozen=True)
class Group:
    """A partition group: the hashes whose top `depth` bits are `prefix`."""

    prefix: int
    depth: int

    @property
    def range(self) -> HashRange:
        width = 2 ** (64 - self.depth)
        return HashRange(self.prefix * width, (self.prefix + 1) * width)

    def __str__(self) -> str:
        return format(self.prefix, f"0{self.depth}b") if self.depth else "*"


@dataclass(frozen=True)
class Directory:
    """Invariant: `groups` are in order of their ranges, which cover the hash space without overlap; `homes` has one
    site per group, each below `sites`."""

    sites: int
    groups: tuple[Group, ...]
    homes: tuple[int, ...]

    def home_ranges(self) -> Iterator[tuple[int, HashRange]]:
        """(site, range) for every stretch of neighbouring groups that live at one site, in order of hash."""
        for site, stretch in groupby(zip(self.homes, self.groups, strict=True), key=lambda pair: pair[0]):
            ranges = [group.range for _, group in stretch]
            yield site, HashRange(ranges[0].low, ranges[-1].high)

    def ranges_of(self, site: int) -> tuple[HashRange, ...]:
        return tuple(r for home, r in self.home_ranges() if home == site)

    def rescaled(self, sites: int) -> Directory:
        """The same groups over another number of sites, in even contiguous shares; splits groups if they are too few
        to give every site one."""
        directory = self
        while len(directory.groups) < sites:
            directory = directory._halved()
        return Directory(sites, directory.groups, _even_shares(len(directory.groups), sites))

    def _halved(self) -> Directory:
        halves = [Group(2 * g.prefix + bit, g.depth + 1) for g in self.groups for bit in (0, 1)]
        return Directory(self.sites, tuple(halves), tuple(h for h in self.homes for _ in (0, 1)))


def uniform(sites: int, groups_per_site: int = 16) -> Directory:
    """A directory of equal groups, at least `groups_per_site` for each site."""
    depth = max(0, (sites * groups_per_site - 1).bit_length())
    groups = tuple(Group(prefix, depth) for prefix in range(2**depth))
    return Directory(sites, groups, _even_shares(len(groups), sites))


def _even_shares(groups: int, sites: int) -> tuple[int, ...]:
    return tuple(index * sites // groups for index in range(groups))
