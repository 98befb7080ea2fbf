"""Giving state to other sites: slices and marks change hands, no row is touched. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from penstock.checkpoint.manifest import SiteState, SubqueryState
from penstock.engine.driver.gathering import ready
from penstock.engine.marks import normal, restricted
from penstock.progress.mark import Mark
from penstock.progress.substreams import low_water_mark
from penstock.state.directory import Directory
from penstock.state.hash_ranges import HashRange, common, joined, point, remaining
from penstock.state.hot_keys import Cells, too_wide
from penstock.state.runs import Slice, about_bytes, join_neighbours, restrict

Ranges = Sequence[HashRange]


@dataclass(frozen=True)
class Home:
    """What a site is home to: `stretches` of groups, and cells, each by its hash and its number; `all` of it in order
    of hash."""

    stretches: Ranges
    cells: tuple[tuple[int, int], ...]
    all: Ranges


@dataclass(frozen=True)
class Share:
    """What a new home gets of a site: `ranges`, exactly; and the same `together`, in as few ranges as the slices of the
    site can be cut at. They hold no rows of others, so what of others lies in between does not matter.

    It gets `only` the rows of a port, or all `but` those of a port; and, where `marked`, how far they have come."""

    site: SiteState
    ranges: Ranges
    together: Ranges
    only: int | None = None
    but: int | None = None
    marked: bool = True

    def of(self, slices: Iterable[Slice]) -> Iterator[Slice]:
        for piece in restrict(slices, self.together):
            if self.only in (None, piece.run.port) and self.but != piece.run.port:
                yield piece


def rescaled(state: SubqueryState, sites: int) -> SubqueryState:
    """Over another number of sites. What is spread over more of them is gathered, so it has to be ready for that."""
    directory = state.directory.gathered(cells.hash for cells in too_wide(state.directory.spread, sites))
    return rehomed(state, directory if directory.sites == sites else directory.scaled(sites))


def changed_hands(before: Directory, after: Directory) -> list[HashRange]:
    """What has another home under a directory that takes the place of another."""
    kept = [after.stretches_of(site) if site < after.sites else () for site in range(before.sites)]
    return sorted(part for site, own in enumerate(kept) for part in remaining(before.stretches_of(site), own))


def bytes_in(state: SubqueryState, ranges: Sequence[HashRange]) -> int:
    """About how much state there is in some ranges, which are in order."""
    here = state.directory
    return sum(
        about_bytes(restrict(held.slices, common(here.stretches_of(site), ranges)), here.sites)
        for site, held in enumerate(state.sites)
    )


def rehomed(state: SubqueryState, directory: Directory) -> SubqueryState:
    """The same state under another directory. A site that keeps its home keeps what it has as it is. What is no longer
    spread, or not in the same way, has to be ready to be gathered."""
    if state.directory == directory:
        return state
    state = _without_other_cells(state, directory)
    before, after = (tuple(_home(known, n) for n in range(known.sites)) for known in (state.directory, directory))
    same = {number for number, (old, new) in enumerate(zip(before, after, strict=False)) if old == new}
    givers = [(site, home) for n, (site, home) in enumerate(zip(state.sites, before, strict=True)) if n not in same]
    released = low_water_mark(site.released for site in state.sites)  # all equally: they were told the same punctuation
    sites = (
        state.sites[n]
        if n in same
        else _state_of([*_of_groups(givers, home), *_of_cells(state, directory, n)], released, _turn(state, n))
        for n, home in enumerate(after)
    )
    return SubqueryState(directory, tuple(sites))


def _without_other_cells(state: SubqueryState, directory: Directory) -> SubqueryState:
    """With those hashes gathered that are to be spread in another way."""
    gone = [cells for cells in state.directory.spread if not _stays(cells, directory)]
    assert all(ready(state, cells) for cells in gone), "rows of a hash that is gathered are pending"
    other = [cells.hash for cells in gone if directory.cells_at(cells.hash) is not None]
    return rehomed(state, state.directory.gathered(other)) if other else state


def _stays(cells: Cells, directory: Directory) -> bool:
    others = directory.cells_at(cells.hash)
    return others is not None and cells.like(others)


def _home(directory: Directory, site: int) -> Home:
    cells = tuple((known.hash, known.sites.index(site)) for known in directory.spread if site in known.sites)
    return Home(directory.stretches_of(site), cells, directory.ranges_of(site))


def _of_groups(givers: Sequence[tuple[SiteState, Home]], home: Home) -> Iterator[Share]:
    """What was in groups, and is. What the giver had in cells lies apart: these rows may go elsewhere."""
    for site, before in givers:
        if inside := common(before.stretches, home.stretches):
            yield Share(site, inside, joined(inside, before.all))


def _of_cells(state: SubqueryState, directory: Directory, site: int) -> Iterator[Share]:
    """What was in cells, or is."""
    for cells in state.directory.spread:
        if directory.cells_at(cells.hash) is None and directory.home_at(cells.hash) == site:
            yield from _gathered(state, cells)
    for cells in directory.spread:
        if site in cells.sites:
            yield _cell(state, cells, cells.sites.index(site))


def _gathered(state: SubqueryState, cells: Cells) -> Iterator[Share]:
    """All that is in the first cell, and of the others what is not copied."""
    (first, *others), here = (state.sites[site] for site in cells.sites), [point(cells.hash)]
    yield Share(first, here, here)
    yield from (Share(other, here, here, only=cells.cut, marked=False) for other in others)


def _cell(state: SubqueryState, cells: Cells, number: int) -> Share:
    """What the cell of the same number had. Of a hash that was in a group, the first cell gets all, the others what is
    to be copied."""
    before, here = state.directory.cells_at(cells.hash), [point(cells.hash)]
    if before is not None:
        return Share(state.sites[before.sites[number]], here, here)
    home = state.sites[state.directory.home_at(cells.hash)]
    return Share(home, here, here, but=cells.cut if number else None)


def _turn(state: SubqueryState, site: int) -> int:
    """A site goes on where it was: it would never come far if moves were more frequent than its rounds."""
    return state.sites[site].turn if site < len(state.sites) else 0


def _state_of(shares: Sequence[Share], released: Mark, turn: int) -> SiteState:
    return SiteState(
        slices=join_neighbours(piece for share in shares for piece in share.of(share.site.slices)),
        marks=normal(mark for s in shares if s.marked for mark in restricted(s.site.marks, s.ranges)),
        pending=join_neighbours(piece for share in shares for piece in share.of(share.site.pending)),
        held=join_neighbours(piece for share in shares for piece in share.of(share.site.held)),
        released=released,
        turn=turn,
    )
