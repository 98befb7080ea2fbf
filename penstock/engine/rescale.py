"""Giving state to another number of sites: slices and marks change hands, no row is touched. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from penstock.checkpoint.manifest import SiteState, SubqueryState
from penstock.engine.marks import restricted
from penstock.progress.substreams import low_water_mark
from penstock.state.directory import Directory, HashRange
from penstock.state.runs import Slice, join_neighbours, restrict


def rescaled(state: SubqueryState, sites: int) -> SubqueryState:
    return state if state.directory.sites == sites else rehomed(state, state.directory.rescaled(sites))


def rehomed(state: SubqueryState, directory: Directory) -> SubqueryState:
    """The same state under another directory."""
    homes = [directory.ranges_of(site) for site in range(directory.sites)]
    return SubqueryState(directory, tuple(_state_of(state.sites, home) for home in homes))


def _state_of(sites: Sequence[SiteState], home: Sequence[HashRange]) -> SiteState:
    """What the sites together have on the ranges of one home. All of them have released equally much: each was told
    the same punctuation."""
    return SiteState(
        slices=_cut((piece for site in sites for piece in site.slices), home),
        marks=restricted([mark for site in sites for mark in site.marks], home),
        pending=_cut((piece for site in sites for piece in site.pending), home),
        held=_cut((piece for site in sites for piece in site.held), home),
        released=low_water_mark(site.released for site in sites),
    )


def _cut(slices: Iterable[Slice], home: Sequence[HashRange]) -> tuple[Slice, ...]:
    return join_neighbours(restrict(slices, home))
