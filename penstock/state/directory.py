"""The directory: the map from partition groups to sites.

A partition group is a prefix of the 64-bit key hash, and so a range of hashes. The directory is an extendible hash
table: its prefixes are prefix-free and cover the whole hash space, and each is mapped to one site. A single hash with
too many rows for one site is taken out of its group and stored in cells at several sites.
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
from penstock.state.hash_ranges import HASH_END, Hashes, HashRange, Places, SiteOrder, point
from penstock.state.hot_keys import NO_SITE, Cells, taken_out

MOST_SPLIT = 1 << 14  # groups are split to give each grid cell its own group, until there are this many


@dataclass(frozen=True)
class Group:
    """A partition group: the hashes whose top `depth` bits are `prefix`."""

    prefix: int
    depth: int

    @property
    def low(self) -> int:
        """Return the first hash of the group."""
        return self.prefix << (64 - self.depth)

    @property
    def range(self) -> HashRange:
        """Return the hashes of the group as a range."""
        return HashRange(self.low, self.low + (1 << (64 - self.depth)))

    @property
    def halves(self) -> tuple[Group, Group]:
        """Return the two groups with a prefix that is one bit longer, in order of hash."""
        return Group(2 * self.prefix, self.depth + 1), Group(2 * self.prefix + 1, self.depth + 1)

    @property
    def parent(self) -> Group:
        """Return the group with a prefix that is one bit shorter. The depth must be at least 1."""
        return Group(self.prefix >> 1, self.depth - 1)

    @staticmethod
    def of_bits(bits: str) -> Group:
        """Parse the text form of a group: its prefix in binary, or `*` for the group of all hashes."""
        return Group(0, 0) if bits == "*" else Group(int(bits, 2), len(bits))

    def __str__(self) -> str:
        return format(self.prefix, f"0{self.depth}b") if self.depth else "*"


@dataclass(frozen=True)
class Directory:
    """The homes of all partition groups, plus the hashes that are stored in cells.

    Invariant: `groups` are in order of hash and cover the hash space without overlap; `homes` has one site per group,
    each below `sites`. `spread` has one entry per hash that is stored in cells, in order of hash, independent of splits
    and moves of the groups; the sites of cells are below `sites`. `grid` is the shape of a theta join's grid, whose
    cells lie in the groups.
    """

    sites: int
    groups: tuple[Group, ...]
    homes: tuple[int, ...]
    spread: tuple[Cells, ...] = ()
    grid: Grid | None = None

    def home_ranges(self) -> tuple[tuple[int, HashRange], ...]:
        """Return (site, range) for each maximal sequence of neighbouring groups at one site, in order of hash. Excludes
        spread hashes."""
        return self._home_ranges

    @cached_property
    def _home_ranges(self) -> tuple[tuple[int, HashRange], ...]:
        """Compute the result of `home_ranges` once."""
        lows, homes = (part.tolist() for part in self.home_range_arrays)
        found = zip(homes, map(HashRange, lows, [*lows[1:], HASH_END]), strict=True)
        return tuple((site, part) for site, part in found if site != NO_SITE) if self.spread else tuple(found)

    @cached_property
    def home_range_arrays(self) -> tuple[Hashes, Places]:
        """Return the home ranges as two arrays: the first hash of each range, and its site. Each spread hash is a range
        of its own with site NO_SITE, so the ranges have no gaps."""
        homes = self.home_of
        firsts = np.flatnonzero(np.concatenate(([True], homes[1:] != homes[:-1])))
        lows, homes = self.lows[firsts], homes[firsts]
        return taken_out(lows, homes, [cells.hash for cells in self.spread]) if self.spread else (lows, homes)

    @cached_property
    def home_ranges_by_site(self) -> Places:
        """Return the indices of `home_range_arrays` ordered by site, then by hash, without the ranges of NO_SITE."""
        homes = self.home_range_arrays[1]
        return np.argsort(homes, kind="stable")[np.count_nonzero(homes == NO_SITE) :]

    @cached_property
    def site_order(self) -> SiteOrder | None:
        """Return the order of rows in which the rows of each site are contiguous. None if any hash is spread, or if the
        longest prefix is too long for a lookup table."""
        return None if self.spread else SiteOrder.of(self.depths, self.home_of, self.sites)

    def ranges_of(self, site: int) -> tuple[HashRange, ...]:
        """Return all ranges of hashes stored at a site, in order: those of its groups, and its cells."""
        cells = self.cells_of(site)
        return tuple(sorted((*self.home_ranges_of(site), *cells))) if cells else self.home_ranges_of(site)

    def home_ranges_of(self, site: int) -> tuple[HashRange, ...]:
        """Return the ranges of the groups at a site, in order of hash, without cells."""
        return self._home_ranges_by_site[site]

    @cached_property
    def _home_ranges_by_site(self) -> tuple[tuple[HashRange, ...], ...]:
        """Return the home ranges of each site, indexed by site."""
        own: list[list[HashRange]] = [[] for _ in range(self.sites)]
        for site, part in self.home_ranges():
            own[site].append(part)
        return tuple(map(tuple, own))

    def cells_of(self, site: int, gathering: bool = False) -> list[HashRange]:
        """Return the spread hashes of which a site holds a cell, as ranges. `gathering`: only those marked to be
        gathered."""
        return [point(c.hash) for c in self.spread if site in c.sites and c.gathering >= gathering]

    def cells_at(self, hash_: int) -> Cells | None:
        """Return the cells of a hash, or None if it is not spread."""
        return next((cells for cells in self.spread if cells.hash == hash_), None)

    def place_at(self, hash_: int) -> int:
        """Return the index of the group that contains a hash."""
        return int(np.searchsorted(self.lows, np.uint64(hash_), side="right")) - 1

    def home_at(self, hash_: int) -> int:
        """Return the site of the group that contains a hash."""
        return self.homes[self.place_at(hash_)]

    def overlapping(self, group: Group) -> tuple[int, int]:
        """Return the half-open range of indices of the groups that share hashes with `group`, which may be a group of
        another directory: the same group, a prefix of it, or extensions of it."""
        return bisect_right(self._low_list, group.low) - 1, bisect_left(self._low_list, group.range.high)

    @cached_property
    def _low_list(self) -> list[int]:
        return self.lows.tolist()  # type: ignore[no-any-return]

    # The groups as arrays, so that code over all groups is vectorised.

    @cached_property
    def lows(self) -> Hashes:
        """Return the first hash of each group."""
        prefixes = np.fromiter((group.prefix for group in self.groups), np.uint64, len(self.groups))
        depths = self.depths.astype(np.uint64)
        return np.where(depths > 0, prefixes << (np.uint64(64) - np.maximum(depths, np.uint64(1))), np.uint64(0))

    @cached_property
    def lasts(self) -> Hashes:
        """Return the last hash of each group."""
        return np.append(self.lows[1:] - np.uint64(1), np.uint64(HASH_END - 1))

    @cached_property
    def depths(self) -> Places:
        """Return the length in bits of each group's prefix."""
        return np.fromiter((group.depth for group in self.groups), np.int64, len(self.groups))

    @cached_property
    def home_of(self) -> Places:
        """Return the site of each group as an array."""
        return np.asarray(self.homes, np.int64)

    @cached_property
    def places_by_home(self) -> Places:
        """Return the indices of the groups, ordered by site, then by hash."""
        return np.argsort(self.home_of, kind="stable")

    def places_of(self, site: int) -> Places:
        """Return the indices of the groups at a site, in order of hash."""
        return self.places_by_home[self._firsts_by_home[site] : self._firsts_by_home[site + 1]]

    @cached_property
    def _firsts_by_home(self) -> list[int]:
        """Return the offset of each site's groups in `places_by_home`, and the total at the end."""
        counts = np.bincount(self.home_of, minlength=self.sites)
        return [0, *np.cumsum(counts).tolist()]

    def place(self, group: Group) -> int:
        """Return the index of a group. Raises KeyError if the directory has no such group."""
        place = bisect_left(self.groups, group.low, key=lambda known: known.low)
        if place == len(self.groups) or self.groups[place] != group:
            raise KeyError(group)
        return place

    def home(self, group: Group) -> int:
        """Return the site of a group. Raises KeyError if the directory has no such group."""
        return self.homes[self.place(group)]

    def __reduce__(self) -> tuple[Callable[..., Directory], tuple[object, ...]]:
        """Pickle compactly: without cached properties, and with prefix lengths and homes as arrays instead of
        objects."""
        homes = self.home_of.astype(np.int32).tobytes()
        rest = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in ("groups", "homes")}
        return _unpacked, (self.depths.astype(np.uint8).tobytes(), homes, rest)

    # -- derived directories -------------------------------------------------------------------------------------

    def moved(self, group: Group, site: int) -> Directory:
        """Return the directory with a group at another site."""
        return self.with_homes({group: site})

    def with_homes(self, sites: Mapping[Group, int]) -> Directory:
        """Return the directory with some groups at other sites."""
        homes = list(self.homes)
        for group, site in sites.items():
            homes[self.place(group)] = site
        return replace(self, homes=tuple(homes))

    def split(self, group: Group) -> Directory:
        """Return the directory with a group replaced by its two halves, both at the same site."""
        place = self.place(group)
        groups = (*self.groups[:place], *group.halves, *self.groups[place + 1 :])
        return replace(self, groups=groups, homes=(*self.homes[:place], self.homes[place], *self.homes[place:]))

    def merged(self, group: Group) -> Directory:
        """Return the directory with the two halves of `group` replaced by it. Both must be groups of one site."""
        place = self.place(group.halves[0])
        groups = (*self.groups[:place], group, *self.groups[place + 2 :])
        return replace(self, groups=groups, homes=(*self.homes[:place], *self.homes[place + 1 :]))

    def scaled(self, sites: int) -> Directory:
        """Return the directory over another number of sites, with few moves.

        A removed site gives its groups to the sites with the fewest; an added site gets groups from those with the
        most. Splits all groups if there are fewer than sites. No hash may have more cells than `sites`. The cells of a
        grid are laid out evenly again: they are so few that balance matters more than few moves.
        """
        directory = self
        while len(directory.groups) < sites:
            directory = directory._halved()
        if self.grid is not None:
            return replace(directory, sites=sites).gridded(self.grid)
        spread = tuple(cells.within(sites) for cells in self.spread)
        return replace(directory, sites=sites, homes=_few_moves(directory.homes, sites), spread=spread)

    def gridded(self, grid: Grid) -> Directory:
        """Return the directory with a grid whose cells are distributed evenly over the sites. Each cell gets its own
        group, up to MOST_SPLIT groups."""
        directory, cells = replace(self, grid=grid), cell_hashes(grid)
        while len(directory.groups) < MOST_SPLIT and len(np.unique(directory._places_of(cells))) < len(cells):
            directory = directory._halved()
        homes = list(_even_shares(len(directory.groups), self.sites))
        for cell, place in enumerate(directory._places_of(cells).tolist()):
            homes[place] = cell * self.sites // len(cells)
        return replace(directory, homes=tuple(homes))

    def _places_of(self, hashes: Hashes) -> Places:
        """Return the index of the group that contains each hash."""
        return np.searchsorted(self.lows, hashes, side="right") - 1

    def _halved(self) -> Directory:
        """Return the directory with every group split in two."""
        halves = [half for group in self.groups for half in group.halves]
        return replace(self, groups=tuple(halves), homes=tuple(h for h in self.homes for _ in (0, 1)))

    def spread_over(self, cells: Cells) -> Directory:
        """Return the directory with these cells for their hash, replacing earlier ones."""
        others = self.gathered([cells.hash]).spread
        return replace(self, spread=tuple(sorted((*others, cells), key=lambda known: known.hash)))

    def gathered(self, hashes: Iterable[int]) -> Directory:
        """Return the directory with these hashes back in their groups, without cells."""
        gone = set(hashes)
        return replace(self, spread=tuple(cells for cells in self.spread if cells.hash not in gone))

    def gathering(self, hashes: Iterable[int]) -> Directory:
        """Return the directory with these hashes marked to be gathered as soon as possible."""
        wanted = set(hashes)
        return replace(self, spread=tuple(replace(c, gathering=c.gathering or c.hash in wanted) for c in self.spread))


def groups_of_depths(depths: Iterable[int]) -> tuple[Group, ...]:
    """Return the groups of a directory from the lengths of their prefixes, in order of hash. The lengths determine the
    prefixes, because the groups have no gaps."""
    groups, low = [], 0
    for depth in depths:
        groups.append(Group(low >> (64 - depth), depth))
        low += 1 << (64 - depth)
    return tuple(groups)


def _unpacked(depths: bytes, homes: bytes, rest: dict[str, Any]) -> Directory:
    """Rebuild a directory from what `__reduce__` returned."""
    groups = groups_of_depths(np.frombuffer(depths, np.uint8).tolist())
    return Directory(groups=groups, homes=tuple(np.frombuffer(homes, np.int32).tolist()), **rest)


def uniform(sites: int, groups_per_site: int = 16) -> Directory:
    """Return a directory of groups of equal size, at least `groups_per_site` per site."""
    depth = max(0, (sites * groups_per_site - 1).bit_length())
    groups = tuple(Group(prefix, depth) for prefix in range(2**depth))
    return Directory(sites, groups, _even_shares(len(groups), sites))


def _few_moves(homes: Sequence[int], sites: int) -> tuple[int, ...]:
    """Return new homes for the groups over `sites` sites, as even as possible with the fewest moves. Where shares
    differ by one, the sites with the most groups get the larger share."""
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
    """Assign contiguous, equal shares of the groups to the sites."""
    return tuple(index * sites // groups for index in range(groups))
