"""Operators on grids: which grid each has, and how their state is brought under another one.

The grid of a theta join follows the number of sites. When that has changed, and as soon as nothing of the join is
pending, the next epoch is planned under the new grid: every site is given one complete copy of the rows that its new
cells need, as slices of what the old cells hold, and writes them anew, in the same epoch in which it works with them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from penstock.checkpoint.manifest import RangeMark, SiteState, SubqueryState
from penstock.engine.driver.move_state import rehomed
from penstock.engine.task.site.storing import of_port
from penstock.operators.protocol import Gridded, Operator
from penstock.plan.program import Program, Subquery
from penstock.progress.substreams import low_water_mark
from penstock.state.directory import Directory, uniform
from penstock.state.grid import Grid
from penstock.state.hash_ranges import HashRange
from penstock.state.runs import Slice, join_neighbours, restrict


def first_directory(operator: Operator, sites: int, groups_per_site: int) -> Directory:
    """The directory that a new checkpoint begins with."""
    directory = uniform(sites, groups_per_site)
    return directory.gridded(operator.grid_for(sites)) if isinstance(operator, Gridded) else directory


class GriddedProgram:
    """A program, with every operator under the grid of its directory; the same value while no grid changes."""

    def __init__(self, program: Program) -> None:
        self._program, self._known = program, dict[tuple[Grid | None, ...], Program]()

    def under(self, directories: Sequence[Directory]) -> Program:
        grids = tuple(directory.grid for directory in directories)
        if grids not in self._known:
            subqueries = tuple(map(_on_grid, self._program.subqueries, directories))
            self._known = {grids: replace(self._program, subqueries=subqueries)}
        return self._known[grids]


def _on_grid(subquery: Subquery, directory: Directory) -> Subquery:
    operator = subquery.operator
    if not isinstance(operator, Gridded) or directory.grid is None:
        return subquery
    return replace(subquery, operator=operator.on(directory.grid))


def wants_grid(operator: Operator, directory: Directory) -> bool:
    """Whether an operator should have another grid than that of its directory."""
    return isinstance(operator, Gridded) and directory.grid != operator.grid_for(directory.sites)


def with_wanted_grid(operator: Operator, directory: Directory, state: SubqueryState) -> Directory:
    """The directory to come, under the grid that the operator should have, if that can be by the state of now."""
    if not isinstance(operator, Gridded) or not wants_grid(operator, directory) or not may_regrid(state):
        return directory
    return directory.gridded(operator.grid_for(directory.sites))


def may_regrid(state: SubqueryState) -> bool:
    """Whether no row is pending in any cell, and all have come equally far: then any cell of a lane has all its rows
    that are still needed."""
    marks = {mark.marks for site in state.sites for mark in site.marks}
    return len(marks) <= 1 and not any(site.pending for site in state.sites)


def under(state: SubqueryState, directory: Directory, operator: Operator) -> SubqueryState:
    """The same state under another directory, and perhaps another grid."""
    if state.directory.grid == directory.grid or not isinstance(operator, Gridded):
        return rehomed(state, directory)
    return regridded(state, directory, operator)


def regridded(state: SubqueryState, directory: Directory, operator: Gridded) -> SubqueryState:
    """For every site under another grid one copy of the rows that it needs; how they are spread is up to the site."""
    assert state.directory.grid is not None
    assert directory.grid is not None
    before, released = operator.on(state.directory.grid), low_water_mark(site.released for site in state.sites)
    marks = next(iter({mark.marks for site in state.sites for mark in site.marks}))
    sites = []
    for number in range(directory.sites):
        homes = directory.ranges_of(number)
        wanted = [before.holding(port, directory.grid, homes) for port in (0, 1)]
        slices, held = (_wanted(pieces, wanted) for pieces in _all_pieces(state))
        sites.append(SiteState(slices, tuple(RangeMark(part, marks) for part in homes), (), held, released))
    return SubqueryState(directory, tuple(sites))


def _all_pieces(state: SubqueryState) -> Iterator[list[Slice]]:
    yield [piece for site in state.sites for piece in site.slices]
    yield [piece for site in state.sites for piece in site.held]


def _wanted(pieces: Sequence[Slice], ranges: Sequence[Sequence[HashRange]]) -> tuple[Slice, ...]:
    """Of each port the slices in its ranges."""
    return join_neighbours(
        part for port, wanted in enumerate(ranges) for part in restrict(of_port(pieces, port), wanted)
    )
