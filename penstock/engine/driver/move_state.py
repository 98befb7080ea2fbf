"""Move state between sites: slices and marks change owners, rows are not touched. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from penstock.engine.driver.gathering import ready
from penstock.progress.mark import Mark, low_water_mark
from penstock.state.directory import Directory
from penstock.state.hash_ranges import HashRange, common, joined, point, remaining
from penstock.state.hot_keys import Cells, too_wide
from penstock.state.model import (
    ParkedRange,
    SiteState,
    SubqueryState,
    normal,
    parked_in_order,
    parked_inside,
    restricted,
)
from penstock.state.runs import Slice, about_bytes, join_neighbours, restrict


@dataclass(frozen=True)
class Home:
    """The hashes that a site owns: `home_ranges` of groups, and cells, as (hash, number of the cell); `all` are the
    ranges of both, sorted."""

    home_ranges: Sequence[HashRange]
    cells: tuple[tuple[int, int], ...]
    all: Sequence[HashRange]


@dataclass(frozen=True)
class MovedState:
    """The part of a site's state that moves to another site: exactly `ranges`, and the same ranges as `together`,
    joined into as few as the slices can be cut into. The gaps in `together` contain no rows of the site, so they do not
    matter.

    The new site gets only the rows of the port `only`, or those of all ports except `but` (None: no restriction); and
    the marks of `ranges`, if `marked`.
    """

    site: SiteState
    ranges: Sequence[HashRange]
    together: Sequence[HashRange]
    only: int | None = None
    but: int | None = None
    marked: bool = True

    def of(self, slices: Iterable[Slice]) -> Iterator[Slice]:
        """Yield the parts of these slices that belong to the moved state."""
        return filter(self._gets, restrict(slices, self.together))

    def parked(self) -> Iterator[ParkedRange]:
        """Yield what is parked of the moved state."""
        for parked in parked_inside(self.site.parked, self.ranges):
            generations = (tuple(filter(self._gets, slices)) for slices in parked.generations)
            yield replace(parked, generations=tuple(generations))

    def _gets(self, piece: Slice) -> bool:
        return self.only in (None, piece.run.port) and self.but != piece.run.port


def rescaled(state: SubqueryState, sites: int) -> SubqueryState:
    """Return the state over another number of sites. Hashes that are spread over more sites are gathered, so they must
    be ready for it."""
    directory = state.directory.gathered(cells.hash for cells in too_wide(state.directory.spread, sites))
    return rehomed(state, directory if directory.sites == sites else directory.scaled(sites))


def changed_hands(before: Directory, after: Directory) -> list[HashRange]:
    """Return the ranges that have another site under the directory `after`, sorted."""
    kept = [after.home_ranges_of(site) if site < after.sites else () for site in range(before.sites)]
    return sorted(part for site, own in enumerate(kept) for part in remaining(before.home_ranges_of(site), own))


def bytes_in(state: SubqueryState, ranges: Sequence[HashRange]) -> int:
    """Return the approximate bytes of state in some sorted ranges."""
    here = state.directory
    return sum(
        about_bytes(restrict((*held.slices, *held.active), common(here.home_ranges_of(site), ranges)), here.sites)
        for site, held in enumerate(state.sites)
    )


def rehomed(state: SubqueryState, directory: Directory) -> SubqueryState:
    """Return the same state under another directory. A site whose hashes do not change keeps its state as it is. Hashes
    that are no longer spread, or not in the same way, must be ready to be gathered."""
    if state.directory == directory:
        return state
    state = _without_other_cells(state, directory)
    before, after = (tuple(_home(known, n) for n in range(known.sites)) for known in (state.directory, directory))
    same = {number for number, (old, new) in enumerate(zip(before, after, strict=False)) if old == new}
    givers = [(site, home) for n, (site, home) in enumerate(zip(state.sites, before, strict=True)) if n not in same]
    released = low_water_mark(site.released for site in state.sites)  # all equal: all sites get the same punctuation
    sites = (
        state.sites[n]
        if n in same
        else _state_of([*_of_groups(givers, home), *_of_cells(state, directory, n)], released, _turn(state, n))
        for n, home in enumerate(after)
    )
    return SubqueryState(directory, tuple(sites))


def _without_other_cells(state: SubqueryState, directory: Directory) -> SubqueryState:
    """Return the state with those hashes gathered that `directory` spreads in another way."""
    gone = [cells for cells in state.directory.spread if not _stays(cells, directory)]
    assert all(ready(state, cells) for cells in gone), "rows of a hash that is gathered are pending"
    other = [cells.hash for cells in gone if directory.cells_at(cells.hash) is not None]
    return rehomed(state, state.directory.gathered(other)) if other else state


def _stays(cells: Cells, directory: Directory) -> bool:
    others = directory.cells_at(cells.hash)
    return others is not None and cells.like(others)


def _home(directory: Directory, site: int) -> Home:
    """Return the hashes that a site owns under a directory."""
    cells = tuple((known.hash, known.sites.index(site)) for known in directory.spread if site in known.sites)
    return Home(directory.home_ranges_of(site), cells, directory.ranges_of(site))


def _of_groups(givers: Sequence[tuple[SiteState, Home]], home: Home) -> Iterator[MovedState]:
    """Yield the state that moves to `home` and is in groups before and after. Cells of the giver are kept apart: their
    rows may go elsewhere."""
    for site, before in givers:
        if inside := common(before.home_ranges, home.home_ranges):
            yield MovedState(site, inside, joined(inside, before.all))


def _of_cells(state: SubqueryState, directory: Directory, site: int) -> Iterator[MovedState]:
    """Yield the state that moves to a site and is in cells before or after."""
    for cells in state.directory.spread:
        if directory.cells_at(cells.hash) is None and directory.home_at(cells.hash) == site:
            yield from _gathered(state, cells)
    for cells in directory.spread:
        if site in cells.sites:
            yield _cell(state, cells, cells.sites.index(site))


def _gathered(state: SubqueryState, cells: Cells) -> Iterator[MovedState]:
    """Yield the state of a spread hash: all of the first cell, and from the others only the port that is cut, since the
    rest are copies."""
    (first, *others), here = (state.sites[site] for site in cells.sites), [point(cells.hash)]
    yield MovedState(first, here, here)
    yield from (MovedState(other, here, here, only=cells.cut, marked=False) for other in others)


def _cell(state: SubqueryState, cells: Cells, number: int) -> MovedState:
    """Return the state of a cell, taken from the cell of the same number before. From a group, cell 0 gets all rows,
    the others only those of copied ports."""
    before, here = state.directory.cells_at(cells.hash), [point(cells.hash)]
    if before is not None:
        return MovedState(state.sites[before.sites[number]], here, here)
    home = state.sites[state.directory.home_at(cells.hash)]
    return MovedState(home, here, here, but=cells.cut if number else None)


def _turn(state: SubqueryState, site: int) -> int:
    """Return the turn of a site, which goes on where it was: otherwise moves more frequent than its rounds would starve
    ranges."""
    return state.sites[site].turn if site < len(state.sites) else 0


def _state_of(all_moved: Sequence[MovedState], released: Mark, turn: int) -> SiteState:
    """Return the state of a site made of what is moved to it."""
    return SiteState(
        slices=join_neighbours(piece for moved in all_moved for piece in moved.of(moved.site.slices)),
        marks=normal(mark for s in all_moved if s.marked for mark in restricted(s.site.marks, s.ranges)),
        pending=join_neighbours(piece for moved in all_moved for piece in moved.of(moved.site.pending)),
        held=join_neighbours(piece for moved in all_moved for piece in moved.of(moved.site.held)),
        released=released,
        turn=turn,
        parked=parked_in_order(parked for moved in all_moved for parked in moved.parked()),
        active=join_neighbours(piece for moved in all_moved for piece in moved.of(moved.site.active)),
    )
