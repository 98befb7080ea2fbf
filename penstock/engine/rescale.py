"""Giving state to other sites: slices and marks change hands, no row is touched. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from penstock.checkpoint.manifest import SiteState, SubqueryState
from penstock.engine.gathering import ready
from penstock.engine.marks import normal, restricted
from penstock.progress.mark import Mark
from penstock.progress.substreams import low_water_mark
from penstock.state.cells import Cells, too_wide
from penstock.state.directory import Directory, HashRange, common, point
from penstock.state.runs import Slice, join_neighbours, restrict


@dataclass(frozen=True)
class Home:
    """What a site is home to: stretches of groups in order of hash, and cells, each by its hash and its number."""

    stretches: tuple[HashRange, ...]
    cells: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Share:
    """What a site gets of another: its rows of some ranges, `only` those of a port or all `but` those of a port, and,
    where `marked`, how far they have come."""

    site: SiteState
    ranges: Sequence[HashRange]
    only: int | None = None
    but: int | None = None
    marked: bool = True

    def of(self, slices: Iterable[Slice]) -> Iterator[Slice]:
        for piece in restrict(slices, self.ranges):
            if self.only in (None, piece.run.port) and self.but != piece.run.port:
                yield piece


def rescaled(state: SubqueryState, sites: int) -> SubqueryState:
    """Over another number of sites. What is spread over more of them is gathered, so it has to be ready for that."""
    directory = state.directory.gathered(cells.hash for cells in too_wide(state.directory.spread, sites))
    return rehomed(state, directory if directory.sites == sites else directory.scaled(sites))


def rehomed(state: SubqueryState, directory: Directory) -> SubqueryState:
    """The same state under another directory. A site that keeps its home keeps what it has as it is. What is no longer
    spread, or not in the same way, has to be ready to be gathered."""
    if state.directory == directory:
        return state
    gone = [cells for cells in state.directory.spread if not _stays(cells, directory)]
    assert all(ready(state, cells) for cells in gone), "rows of a hash that is gathered are pending"
    if any(directory.cells_at(cells.hash) for cells in gone):
        state = rehomed(state, state.directory.gathered(cells.hash for cells in gone))
    before, after = _homes(state.directory), _homes(directory)
    released = low_water_mark(site.released for site in state.sites)  # all equally: they were told the same punctuation
    sites: list[SiteState] = []
    for number, home in enumerate(after):
        unchanged = number < len(before) and before[number] == home
        shares = () if unchanged else (*_of_groups(state, before, home), *_of_cells(state, directory, number))
        sites.append(state.sites[number] if unchanged else _state_of(shares, released))
    return SubqueryState(directory, tuple(sites))


def _stays(cells: Cells, directory: Directory) -> bool:
    others = directory.cells_at(cells.hash)
    return others is not None and cells.like(others)


def _homes(directory: Directory) -> list[Home]:
    stretches: list[list[HashRange]] = [[] for _ in range(directory.sites)]
    for site, part in directory.home_ranges():
        stretches[site].append(part)
    cells: list[list[tuple[int, int]]] = [[] for _ in range(directory.sites)]
    for known in directory.spread:
        for number, site in enumerate(known.sites):
            cells[site].append((known.hash, number))
    return [Home(tuple(ranges), tuple(own)) for ranges, own in zip(stretches, cells, strict=True)]


def _of_groups(state: SubqueryState, before: Sequence[Home], home: Home) -> Iterator[Share]:
    """What was in groups, and is."""
    for site, known in zip(state.sites, before, strict=True):
        if inside := common(known.stretches, home.stretches):
            yield Share(site, inside)


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
    first, *others = (state.sites[site] for site in cells.sites)
    yield Share(first, [point(cells.hash)])
    yield from (Share(other, [point(cells.hash)], only=cells.cut, marked=False) for other in others)


def _cell(state: SubqueryState, cells: Cells, number: int) -> Share:
    """What the cell of the same number had. Of a hash that was in a group, the first cell gets all, the others what is
    to be copied."""
    before, here = state.directory.cells_at(cells.hash), [point(cells.hash)]
    if before is not None:
        return Share(state.sites[before.sites[number]], here)
    return Share(state.sites[state.directory.home_at(cells.hash)], here, but=cells.cut if number else None)


def _state_of(shares: Sequence[Share], released: Mark) -> SiteState:
    return SiteState(
        slices=join_neighbours(piece for share in shares for piece in share.of(share.site.slices)),
        marks=normal(mark for s in shares if s.marked for mark in restricted(s.site.marks, s.ranges)),
        pending=join_neighbours(piece for share in shares for piece in share.of(share.site.pending)),
        held=join_neighbours(piece for share in shares for piece in share.of(share.site.held)),
        released=released,
    )
