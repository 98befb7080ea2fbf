"""The directory: which site is home to which partition group.

A partition group is a prefix of the 64-bit key hash, that is, a range of it. The directory is extendible hashing: its
prefixes are prefix-free and cover the whole hash space, each mapped to one site. Single hashes that are too much for a
site are taken out of their groups and live in cells at several sites.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from penstock.state.cells import Cells

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


def point(hash_: int) -> HashRange:
    """The range of one hash."""
    return HashRange(hash_, hash_ + 1)


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


def common(some: Sequence[HashRange], others: Sequence[HashRange]) -> list[HashRange]:
    """What two sets of ranges have in common; each is in order, and its ranges do not overlap."""
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


@dataclass(frozen=True)
class Group:
    """A partition group: the hashes whose top `depth` bits are `prefix`."""

    prefix: int
    depth: int

    @property
    def range(self) -> HashRange:
        width = 2 ** (64 - self.depth)
        return HashRange(self.prefix * width, (self.prefix + 1) * width)

    @property
    def halves(self) -> tuple[Group, Group]:
        return Group(2 * self.prefix, self.depth + 1), Group(2 * self.prefix + 1, self.depth + 1)

    @property
    def parent(self) -> Group:
        """The group that it is a half of."""
        return Group(self.prefix >> 1, self.depth - 1)

    @staticmethod
    def of_bits(bits: str) -> Group:
        """The group that is written so."""
        return Group(0, 0) if bits == "*" else Group(int(bits, 2), len(bits))

    def __str__(self) -> str:
        return format(self.prefix, f"0{self.depth}b") if self.depth else "*"


@dataclass(frozen=True)
class Directory:
    """Invariant: `groups` are in order of their ranges, which cover the hash space without overlap; `homes` has one
    site per group, each below `sites`. `spread` are the hashes that live in cells, in order and each once, whatever
    becomes of their groups; their sites are below `sites` too."""

    sites: int
    groups: tuple[Group, ...]
    homes: tuple[int, ...]
    spread: tuple[Cells, ...] = ()

    def home_ranges(self) -> tuple[tuple[int, HashRange], ...]:
        """(site, range) for every stretch of neighbouring groups that live at one site, in order of hash, without what
        is spread."""
        if not self.spread:
            return self._stretches
        points = [point(cells.hash) for cells in self.spread]
        return tuple((site, part) for site, whole in self._stretches for part in remaining([whole], points))

    @cached_property
    def _stretches(self) -> tuple[tuple[int, HashRange], ...]:
        firsts = [n for n, home in enumerate(self.homes) if not n or home != self.homes[n - 1]]
        lows = [self.groups[n].range.low for n in firsts]
        highs = [*lows[1:], HASH_END]
        return tuple((self.homes[n], HashRange(low, high)) for n, low, high in zip(firsts, lows, highs, strict=True))

    def ranges_of(self, site: int) -> tuple[HashRange, ...]:
        """All that a site is home to, its cells among it."""
        own = [r for home, r in self.home_ranges() if home == site]
        return tuple(sorted([*own, *self.cells_of(site)]) if self.spread else own)

    def cells_of(self, site: int, gathering: bool = False) -> list[HashRange]:
        """The spread hashes that a site has a cell of; only those that are to be gathered, if that is asked for."""
        return [point(c.hash) for c in self.spread if site in c.sites and c.gathering >= gathering]

    def cells_at(self, hash_: int) -> Cells | None:
        """The cells of a hash; None where it is not spread."""
        return next((cells for cells in self.spread if cells.hash == hash_), None)

    def place_at(self, hash_: int) -> int:
        """Where the group that a hash belongs to is in the order of groups."""
        return int(np.searchsorted(self._lows, np.uint64(hash_), side="right")) - 1

    def home_at(self, hash_: int) -> int:
        """The site of the group that a hash belongs to."""
        return self.homes[self.place_at(hash_)]

    def overlapping(self, group: Group) -> tuple[int, int]:
        """From which to before which place there are groups that have hashes in common with one of another directory:
        itself, what it is part of, or what is part of it."""
        first = int(np.searchsorted(self._lows, np.uint64(group.range.low), side="right")) - 1
        return first, int(np.searchsorted(self._lows, np.uint64(group.range.high - 1), side="right"))

    @cached_property
    def _lows(self) -> Hashes:
        prefixes = np.asarray([group.prefix for group in self.groups], np.uint64)
        depths = np.asarray([group.depth for group in self.groups], np.uint64)
        return np.where(depths > 0, prefixes << (np.uint64(64) - np.maximum(depths, np.uint64(1))), np.uint64(0))

    def place(self, group: Group) -> int:
        """Where the group is in the order of groups; raises KeyError if it is none of them."""
        place = bisect_left(self.groups, group.range.low, key=lambda known: known.range.low)
        if place == len(self.groups) or self.groups[place] != group:
            raise KeyError(group)
        return place

    def home(self, group: Group) -> int:
        """Its site; raises KeyError if it is none of the groups."""
        return self.homes[self.place(group)]

    def __getstate__(self) -> dict[str, object]:
        """What is cached stays at home."""
        return {"sites": self.sites, "groups": self.groups, "homes": self.homes, "spread": self.spread}

    # -- other directories ---------------------------------------------------------------------------------------

    def moved(self, group: Group, site: int) -> Directory:
        """With another home for a group."""
        place = self.place(group)
        return replace(self, homes=(*self.homes[:place], site, *self.homes[place + 1 :]))

    def split(self, group: Group) -> Directory:
        """With both halves of a group where it was."""
        place = self.place(group)
        groups = (*self.groups[:place], *group.halves, *self.groups[place + 1 :])
        return replace(self, groups=groups, homes=(*self.homes[:place], self.homes[place], *self.homes[place:]))

    def merged(self, group: Group) -> Directory:
        """With a group where its halves were, which are its own and live at one site."""
        place = self.place(group.halves[0])
        groups = (*self.groups[:place], group, *self.groups[place + 2 :])
        return replace(self, groups=groups, homes=(*self.homes[:place], *self.homes[place + 1 :]))

    def scaled(self, sites: int) -> Directory:
        """Over another number of sites, with few moves: a site that goes gives its groups to those that have the
        fewest, and one that comes gets some of those that have the most. Splits groups if they are too few. Nothing is
        spread over more sites than there are to be."""
        directory = self
        while len(directory.groups) < sites:
            directory = directory._halved()
        spread = tuple(cells.within(sites) for cells in self.spread)
        return replace(directory, sites=sites, homes=_few_moves(directory.homes, sites), spread=spread)

    def _halved(self) -> Directory:
        halves = [half for group in self.groups for half in group.halves]
        return replace(self, groups=tuple(halves), homes=tuple(h for h in self.homes for _ in (0, 1)))

    def spread_over(self, cells: Cells) -> Directory:
        """With cells for a hash, which may have had others."""
        others = self.gathered([cells.hash]).spread
        return replace(self, spread=tuple(sorted((*others, cells), key=lambda known: known.hash)))

    def gathered(self, hashes: Iterable[int]) -> Directory:
        """With hashes where their groups are."""
        gone = set(hashes)
        return replace(self, spread=tuple(cells for cells in self.spread if cells.hash not in gone))

    def gathering(self, hashes: Iterable[int]) -> Directory:
        """With hashes that are to be gathered as soon as can be."""
        wanted = set(hashes)
        return replace(self, spread=tuple(replace(c, gathering=c.gathering or c.hash in wanted) for c in self.spread))


def uniform(sites: int, groups_per_site: int = 16) -> Directory:
    """A directory of equal groups, at least `groups_per_site` for each site."""
    depth = max(0, (sites * groups_per_site - 1).bit_length())
    groups = tuple(Group(prefix, depth) for prefix in range(2**depth))
    return Directory(sites, groups, _even_shares(len(groups), sites))


def _few_moves(homes: Sequence[int], sites: int) -> tuple[int, ...]:
    """Homes for as many groups at `sites` sites, as even as can be; whoever has most gets the larger shares."""
    counts = Counter(homes)
    least, larger = divmod(len(homes), sites)
    most_first = sorted(range(sites), key=lambda site: -counts[site])
    room = {site: least + (rank < larger) for rank, site in enumerate(most_first)}
    kept: list[int | None] = []
    for home in homes:
        stays = room.get(home, 0) > 0
        room[home] = room.get(home, 0) - stays
        kept.append(home if stays else None)
    spare = iter([site for site in range(sites) for _ in range(room[site])])
    return tuple(next(spare) if home is None else home for home in kept)


def _even_shares(groups: int, sites: int) -> tuple[int, ...]:
    return tuple(index * sites // groups for index in range(groups))
