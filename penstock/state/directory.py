"""The directory: which site is home to which partition group.

A partition group is a prefix of the 64-bit key hash, that is, a range of it. The directory is extendible hashing: its
prefixes are prefix-free and cover the whole hash space, each mapped to one site. Single hashes that are too much for a
site are taken out of their groups and live in cells at several sites.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np

from penstock.state.grid import Grid, cell_hashes
from penstock.state.hash_ranges import HASH_END, Hashes, HashRange, Places, point
from penstock.state.hot_keys import NOBODY, Cells, taken_out
from penstock.state.site_order import SiteOrder

MOST_SPLIT = 1 << 14  # groups, up to which they are split so that each cell of a grid has its own


@dataclass(frozen=True)
class Group:
    """A partition group: the hashes whose top `depth` bits are `prefix`."""

    prefix: int
    depth: int

    @property
    def low(self) -> int:
        """Its first hash."""
        return self.prefix << (64 - self.depth)

    @property
    def range(self) -> HashRange:
        return HashRange(self.low, self.low + (1 << (64 - self.depth)))

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
    becomes of their groups; their sites are below `sites` too. `grid` is that of a theta join, whose groups hold its
    cells."""

    sites: int
    groups: tuple[Group, ...]
    homes: tuple[int, ...]
    spread: tuple[Cells, ...] = ()
    grid: Grid | None = None

    def home_ranges(self) -> tuple[tuple[int, HashRange], ...]:
        """(site, range) for every stretch of neighbouring groups that live at one site, in order of hash, without what
        is spread."""
        return self._stretches

    @cached_property
    def _stretches(self) -> tuple[tuple[int, HashRange], ...]:
        lows, homes = (part.tolist() for part in self.stretches)
        found = zip(homes, map(HashRange, lows, [*lows[1:], HASH_END]), strict=True)
        return tuple((site, part) for site, part in found if site != NOBODY) if self.spread else tuple(found)

    @cached_property
    def stretches(self) -> tuple[Hashes, Places]:
        """The same as arrays: where each stretch begins, and its site. A hash that is spread is a stretch of nobody's
        here, which leaves no gaps."""
        homes = self.home_of
        firsts = np.flatnonzero(np.concatenate(([True], homes[1:] != homes[:-1])))
        lows, homes = self.lows[firsts], homes[firsts]
        return taken_out(lows, homes, [cells.hash for cells in self.spread]) if self.spread else (lows, homes)

    @cached_property
    def stretches_by_home(self) -> Places:
        """The places of stretches, those of each site together and in order of hash, nobody's left out."""
        homes = self.stretches[1]
        return np.argsort(homes, kind="stable")[np.count_nonzero(homes == NOBODY) :]

    @cached_property
    def site_order(self) -> SiteOrder | None:
        """The order in which each site has its rows in one piece; None where a hash is at several, or there is no
        table of it."""
        return None if self.spread else SiteOrder.of(self.depths, self.home_of, self.sites)

    def ranges_of(self, site: int) -> tuple[HashRange, ...]:
        """All that a site is home to, in order: the stretches of its groups, and its cells."""
        cells = self.cells_of(site)
        return tuple(sorted((*self.stretches_of(site), *cells))) if cells else self.stretches_of(site)

    def stretches_of(self, site: int) -> tuple[HashRange, ...]:
        return self._stretches_by_site[site]

    @cached_property
    def _stretches_by_site(self) -> tuple[tuple[HashRange, ...], ...]:
        own: list[list[HashRange]] = [[] for _ in range(self.sites)]
        for site, part in self.home_ranges():
            own[site].append(part)
        return tuple(map(tuple, own))

    def cells_of(self, site: int, gathering: bool = False) -> list[HashRange]:
        """The spread hashes that a site has a cell of; only those that are to be gathered, if that is asked for."""
        return [point(c.hash) for c in self.spread if site in c.sites and c.gathering >= gathering]

    def cells_at(self, hash_: int) -> Cells | None:
        """The cells of a hash; None where it is not spread."""
        return next((cells for cells in self.spread if cells.hash == hash_), None)

    def place_at(self, hash_: int) -> int:
        """Where the group that a hash belongs to is in the order of groups."""
        return int(np.searchsorted(self.lows, np.uint64(hash_), side="right")) - 1

    def home_at(self, hash_: int) -> int:
        """The site of the group that a hash belongs to."""
        return self.homes[self.place_at(hash_)]

    def overlapping(self, group: Group) -> tuple[int, int]:
        """From which to before which place there are groups that have hashes in common with one of another directory:
        itself, what it is part of, or what is part of it."""
        return bisect_right(self._low_list, group.low) - 1, bisect_left(self._low_list, group.range.high)

    @cached_property
    def _low_list(self) -> list[int]:
        return self.lows.tolist()  # type: ignore[no-any-return]

    # The groups as arrays: what is asked of all of them at once must not go through them one by one.

    @cached_property
    def lows(self) -> Hashes:
        """The first hash of each group."""
        prefixes = np.fromiter((group.prefix for group in self.groups), np.uint64, len(self.groups))
        depths = self.depths.astype(np.uint64)
        return np.where(depths > 0, prefixes << (np.uint64(64) - np.maximum(depths, np.uint64(1))), np.uint64(0))

    @cached_property
    def lasts(self) -> Hashes:
        """The last hash of each group."""
        return np.append(self.lows[1:] - np.uint64(1), np.uint64(HASH_END - 1))

    @cached_property
    def depths(self) -> Places:
        return np.fromiter((group.depth for group in self.groups), np.int64, len(self.groups))

    @cached_property
    def home_of(self) -> Places:
        """The site of each group."""
        return np.asarray(self.homes, np.int64)

    @cached_property
    def places_by_home(self) -> Places:
        """The places of groups, those of each site together and in order of hash."""
        return np.argsort(self.home_of, kind="stable")

    def places_of(self, site: int) -> Places:
        """The places of the groups of a site, in order of hash."""
        return self.places_by_home[self._firsts_by_home[site] : self._firsts_by_home[site + 1]]

    @cached_property
    def _firsts_by_home(self) -> list[int]:
        counts = np.bincount(self.home_of, minlength=self.sites)
        return [0, *np.cumsum(counts).tolist()]

    def place(self, group: Group) -> int:
        """Where the group is in the order of groups; raises KeyError if it is none of them."""
        place = bisect_left(self.groups, group.low, key=lambda known: known.low)
        if place == len(self.groups) or self.groups[place] != group:
            raise KeyError(group)
        return place

    def home(self, group: Group) -> int:
        """Its site; raises KeyError if it is none of the groups."""
        return self.homes[self.place(group)]

    def __reduce__(self) -> tuple[Callable[..., Directory], tuple[object, ...]]:
        """In few bytes: what is cached stays at home, and ten thousand groups do not travel as so many objects."""
        homes = self.home_of.astype(np.int32).tobytes()
        rest = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in ("groups", "homes")}
        return _unpacked, (self.depths.astype(np.uint8).tobytes(), homes, rest)

    # -- other directories ---------------------------------------------------------------------------------------

    def moved(self, group: Group, site: int) -> Directory:
        """With another home for a group."""
        return self.with_homes({group: site})

    def with_homes(self, sites: Mapping[Group, int]) -> Directory:
        """With other homes for some groups."""
        homes = list(self.homes)
        for group, site in sites.items():
            homes[self.place(group)] = site
        return replace(self, homes=tuple(homes))

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
        spread over more sites than there are to be. Cells of a grid are so few that evenness counts for more."""
        directory = self
        while len(directory.groups) < sites:
            directory = directory._halved()
        if self.grid is not None:
            return replace(directory, sites=sites).gridded(self.grid)
        spread = tuple(cells.within(sites) for cells in self.spread)
        return replace(directory, sites=sites, homes=_few_moves(directory.homes, sites), spread=spread)

    def gridded(self, grid: Grid) -> Directory:
        """With a grid whose cells are spread evenly over the sites, each in a group of its own unless they are very
        many."""
        directory, cells = replace(self, grid=grid), cell_hashes(grid)
        while len(directory.groups) < MOST_SPLIT and len(np.unique(directory._places_of(cells))) < len(cells):
            directory = directory._halved()
        homes = list(_even_shares(len(directory.groups), self.sites))
        for cell, place in enumerate(directory._places_of(cells).tolist()):
            homes[place] = cell * self.sites // len(cells)
        return replace(directory, homes=tuple(homes))

    def _places_of(self, hashes: Hashes) -> Places:
        return np.searchsorted(self.lows, hashes, side="right") - 1

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


def groups_of_depths(depths: Iterable[int]) -> tuple[Group, ...]:
    """The groups of a directory: in order of hash, and without gaps, the length of each prefix tells all of it."""
    groups, low = [], 0
    for depth in depths:
        groups.append(Group(low >> (64 - depth), depth))
        low += 1 << (64 - depth)
    return tuple(groups)


def _unpacked(depths: bytes, homes: bytes, rest: dict[str, Any]) -> Directory:
    groups = groups_of_depths(np.frombuffer(depths, np.uint8).tolist())
    return Directory(groups=groups, homes=tuple(np.frombuffer(homes, np.int32).tolist()), **rest)


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
