"""Operators on grids: which grid each has, and how their state is converted to another grid.

The grid of a theta join follows the number of sites. After that has changed, and as soon as no work of the join is
pending, the next epoch is planned with the new grid: every site gets one complete copy of the rows that its new cells
need, as slices of the state of the old cells, and rewrites them in the same epoch in which it works with them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from penstock.engine.driver.move_state import rehomed
from penstock.engine.task.site.storing import of_port
from penstock.operators.protocol import Gridded, Operator
from penstock.plan.program import Program, Subquery
from penstock.progress.mark import low_water_mark
from penstock.state.directory import Directory, uniform
from penstock.state.grid import Grid
from penstock.state.hash_ranges import HashRange
from penstock.state.model import RangeMark, SiteState, SubqueryState
from penstock.state.runs import Slice, join_neighbours, restrict


def first_directory(operator: Operator, sites: int, groups_per_site: int) -> Directory:
    """Return the directory of a new checkpoint."""
    directory = uniform(sites, groups_per_site)
    return directory.gridded(operator.grid_for(sites)) if isinstance(operator, Gridded) else directory


class GriddedProgram:
    """A program whose operators have the grids of given directories. Returns the same object while no grid changes."""

    def __init__(self, program: Program) -> None:
        self._program, self._known = program, dict[tuple[Grid | None, ...], Program]()

    def under(self, directories: Sequence[Directory]) -> Program:
        """Return the program with the grids of these directories."""
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
    """Return whether an operator should have another grid than that of its directory."""
    return isinstance(operator, Gridded) and directory.grid != operator.grid_for(directory.sites)


def with_wanted_grid(operator: Operator, directory: Directory, state: SubqueryState) -> Directory:
    """Return the next directory, with the grid that the operator should have if the present state allows a change."""
    if not isinstance(operator, Gridded) or not wants_grid(operator, directory) or not may_regrid(state):
        return directory
    return directory.gridded(operator.grid_for(directory.sites))


def may_regrid(state: SubqueryState) -> bool:
    """Return whether no row is pending or parked in any cell, and all cells have equal marks: then any cell of a lane
    has all rows of the lane that are still needed."""
    marks = {mark.marks for site in state.sites for mark in site.marks}
    return len(marks) <= 1 and not any(site.pending or site.parked for site in state.sites)


def under(state: SubqueryState, directory: Directory, operator: Operator) -> SubqueryState:
    """Return the same state under another directory, and perhaps another grid."""
    if state.directory.grid == directory.grid or not isinstance(operator, Gridded):
        return rehomed(state, directory)
    return regridded(state, directory, operator)


def regridded(state: SubqueryState, directory: Directory, operator: Gridded) -> SubqueryState:
    """Return the state under another grid: every site gets one copy of the rows that it needs, and distributes them
    over its cells itself. Requires `may_regrid`."""
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
    """Yield the stored slices of all sites, then the held ones."""
    yield [piece for site in state.sites for piece in site.slices]
    yield [piece for site in state.sites for piece in site.held]


def _wanted(pieces: Sequence[Slice], ranges: Sequence[Sequence[HashRange]]) -> tuple[Slice, ...]:
    """Return the slices restricted to the ranges of their port."""
    return join_neighbours(
        part for port, wanted in enumerate(ranges) for part in restrict(of_port(pieces, port), wanted)
    )
