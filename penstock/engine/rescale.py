"""Giving state to another number of sites: slices and marks change hands, no row is touched. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from penstock.checkpoint.manifest import SiteState, SubqueryState
from penstock.engine.marks import normal, restricted
from penstock.progress.mark import Mark
from penstock.progress.substreams import low_water_mark
from penstock.state.directory import Directory, HashRange, common, joined
from penstock.state.runs import join_neighbours, restrict

Ranges = Sequence[HashRange]


@dataclass(frozen=True)
class Share:
    """What a new home gets of a site: `ranges`, exactly; and the same `together`, in as few ranges as the slices of the
    site can be cut at. They hold no rows of others, so what of others lies in between does not matter."""

    site: SiteState
    ranges: Ranges
    together: Ranges


def rescaled(state: SubqueryState, sites: int) -> SubqueryState:
    return rehomed(state, state.directory if state.directory.sites == sites else state.directory.scaled(sites))


def rehomed(state: SubqueryState, directory: Directory) -> SubqueryState:
    """The same state under another directory. A site that keeps its home keeps what it has as it is."""
    if state.directory == directory:
        return state
    before, after = (tuple(known.ranges_of(n) for n in range(known.sites)) for known in (state.directory, directory))
    same = {number for number, (old, new) in enumerate(zip(before, after, strict=False)) if old == new}
    givers = [(site, home) for n, (site, home) in enumerate(zip(state.sites, before, strict=True)) if n not in same]
    released = low_water_mark(site.released for site in state.sites)  # all equally: they were told the same punctuation
    sites = (
        state.sites[n] if n in same else _state_of(list(_shares(givers, home)), released)
        for n, home in enumerate(after)
    )
    return SubqueryState(directory, tuple(sites))


def _shares(givers: Sequence[tuple[SiteState, Ranges]], home: Ranges) -> Iterator[Share]:
    for site, before in givers:
        if inside := common(before, home):
            yield Share(site, inside, joined(inside, before))


def _state_of(shares: Sequence[Share], released: Mark) -> SiteState:
    return SiteState(
        slices=join_neighbours(piece for share in shares for piece in restrict(share.site.slices, share.together)),
        marks=normal(mark for share in shares for mark in restricted(share.site.marks, share.ranges)),
        pending=join_neighbours(piece for share in shares for piece in restrict(share.site.pending, share.together)),
        held=join_neighbours(piece for share in shares for piece in restrict(share.site.held, share.together)),
        released=released,
    )
