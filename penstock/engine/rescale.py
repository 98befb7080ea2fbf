"""Giving state to another number of sites: slices and marks change hands, no row is touched. Pure."""

from __future__ import annotations

from penstock.checkpoint.manifest import SiteState, SubqueryState
from penstock.engine.marks import restricted
from penstock.state.directory import Directory
from penstock.state.runs import join_neighbours, restrict


def rescaled(state: SubqueryState, sites: int) -> SubqueryState:
    return state if state.directory.sites == sites else rehomed(state, state.directory.rescaled(sites))


def rehomed(state: SubqueryState, directory: Directory) -> SubqueryState:
    """The same state under another directory."""
    slices = [piece for site in state.sites for piece in site.slices]
    marks = [mark for site in state.sites for mark in site.marks]
    homes = [directory.ranges_of(site) for site in range(directory.sites)]
    return SubqueryState(
        directory,
        tuple(SiteState(join_neighbours(restrict(slices, home)), restricted(marks, home)) for home in homes),
    )
