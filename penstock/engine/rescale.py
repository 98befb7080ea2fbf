"""Giving state to another number of sites: slices and marks change hands, no row is touched. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from penstock.checkpoint.manifest import SiteState, SubqueryState
from penstock.engine.marks import normal, restricted
from penstock.progress.substreams import low_water_mark
from penstock.state.directory import Directory
from penstock.state.handover import Handover, Share
from penstock.state.runs import Slice, join_neighbours, restrict


def rescaled(state: SubqueryState, sites: int) -> SubqueryState:
    return rehomed(state, state.directory if state.directory.sites == sites else state.directory.scaled(sites))


def rehomed(state: SubqueryState, directory: Directory) -> SubqueryState:
    """The same state under another directory. A site that keeps its home keeps what it has as it is."""
    if state.directory == directory:
        return state
    handover = Handover(state.directory, directory)
    return SubqueryState(directory, tuple(_state_of(state.sites, handover, n) for n in range(directory.sites)))


def _state_of(sites: Sequence[SiteState], handover: Handover, target: int) -> SiteState:
    """What the old sites have for a new one. All of them have released equally much: each was told the same
    punctuation."""
    if (same := handover.same_home(target)) is not None:
        return sites[same]
    rows = [share for share in handover.state if share.target == target]
    said = [share for share in handover.marks if share.target == target]
    return SiteState(
        slices=_given(sites, rows, lambda site: site.slices),
        marks=normal(mark for share in said for mark in restricted(sites[share.source].marks, share.range)),
        pending=_given(sites, rows, lambda site: site.pending),
        held=_given(sites, rows, lambda site: site.held),
        released=low_water_mark(site.released for site in sites),
    )


def _given(
    sites: Sequence[SiteState], shares: Iterable[Share], what: Callable[[SiteState], tuple[Slice, ...]]
) -> tuple[Slice, ...]:
    return join_neighbours(p for share in shares for p in restrict(what(sites[share.source]), [share.range]))
