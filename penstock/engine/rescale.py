"""Giving state to another number of sites: slices and marks change hands, no row is touched. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.checkpoint.manifest import SiteState, SubqueryState
from penstock.engine.marks import normal, restricted
from penstock.progress.substreams import low_water_mark
from penstock.state.directory import Directory, HashRange, common
from penstock.state.runs import join_neighbours, restrict

Ranges = tuple[HashRange, ...]


def rescaled(state: SubqueryState, sites: int) -> SubqueryState:
    return rehomed(state, state.directory if state.directory.sites == sites else state.directory.scaled(sites))


def rehomed(state: SubqueryState, directory: Directory) -> SubqueryState:
    """The same state under another directory. A site that keeps its home keeps what it has as it is."""
    if state.directory == directory:
        return state
    before = [state.directory.ranges_of(site) for site in range(state.directory.sites)]
    known = dict(zip(before, state.sites, strict=True))
    homes = [directory.ranges_of(site) for site in range(directory.sites)]
    return SubqueryState(directory, tuple(known.get(home) or _state_of(known, home) for home in homes))


def _state_of(known: Mapping[Ranges, SiteState], home: Ranges) -> SiteState:
    """What the sites, which are known by their homes, have on the ranges of a new one. All of them have released
    equally much: each was told the same punctuation."""
    shares = [(site, inside) for before, site in known.items() if (inside := common(before, home))]
    return SiteState(
        slices=join_neighbours(piece for site, inside in shares for piece in restrict(site.slices, inside)),
        marks=normal(mark for site, inside in shares for mark in restricted(site.marks, inside)),
        pending=join_neighbours(piece for site, inside in shares for piece in restrict(site.pending, inside)),
        held=join_neighbours(piece for site, inside in shares for piece in restrict(site.held, inside)),
        released=low_water_mark(site.released for site in known.values()),
    )
