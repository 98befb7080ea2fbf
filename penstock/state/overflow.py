"""Parked state: how the slices of a site become generations, and how generations become state again. Pure.

Parking a range makes its slices, of all ports, a generation: a list of slices changes hands, and no row is touched. So
parked ranges are cut, moved and joined like all other state.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from penstock.state.hash_ranges import HashRange, coalesced, remaining
from penstock.state.model import ParkedRange, SiteState
from penstock.state.runs import Slice, join_neighbours, restrict


def park(site: SiteState, part: HashRange) -> SiteState:
    """Return the state with a range parked: what was state is its first generation; where that is parked already, what
    came since is its youngest one. Rows of the range that are pending become active when they are worked on. A part of
    the range without slices stays as it is."""
    known, others = list(inside(site.parked, [part])), list(_others(site.parked, part))
    new = [ParkedRange(one, ()) for one in remaining([part], [parked.range for parked in known])]
    grown = [
        *(_with_generation(parked, site.active) for parked in known),
        *(_with_generation(parked, site.slices) for parked in new),
    ]
    return replace(
        site,
        slices=outside(site.slices, [part]),
        active=_active_in(site, others),
        parked=in_order([*others, *(parked for parked in grown if parked.generations)]),
    )


def unpark(site: SiteState, part: HashRange) -> SiteState:
    """Return the state with all generations of a range as state again, after the results that they owe together were
    produced."""
    freed = [piece for parked in inside(site.parked, [part]) for piece in parked.slices()]
    others = list(_others(site.parked, part))
    return replace(
        site,
        slices=join_neighbours([*site.slices, *freed, *restrict(site.active, [part])]),
        active=_active_in(site, others),
        parked=in_order(others),
    )


def inside(parked: Iterable[ParkedRange], ranges: Sequence[HashRange]) -> Iterator[ParkedRange]:
    """Yield the parts of parked ranges inside `ranges`, which must not overlap."""
    for one in parked:
        for part in ranges:
            if (both := one.range.intersect(part)) is not None:
                yield ParkedRange(both, tuple(tuple(restrict(slices, [both])) for slices in one.generations))


def outside(slices: Iterable[Slice], ranges: Sequence[HashRange]) -> tuple[Slice, ...]:
    """Return the parts of slices outside of `ranges`, which must not overlap."""
    return tuple(Slice(piece.run, part) for piece in slices for part in remaining([piece.range], ranges))


def in_order(parked: Iterable[ParkedRange]) -> tuple[ParkedRange, ...]:
    """Return parked ranges in order of hash."""
    return tuple(sorted(parked, key=lambda one: one.range))


def _others(known: Sequence[ParkedRange], part: HashRange) -> Iterator[ParkedRange]:
    """Yield what is parked outside of a range."""
    for parked in known:
        yield from inside([parked], remaining([parked.range], [part]))


def _active_in(site: SiteState, parked: Iterable[ParkedRange]) -> tuple[Slice, ...]:
    """Return the active slices of some parked ranges, cut only where something is not parked."""
    return tuple(restrict(site.active, coalesced(one.range for one in parked)))


def _with_generation(parked: ParkedRange, slices: Sequence[Slice]) -> ParkedRange:
    """Return the range with its part of some slices as the youngest generation, if there are any."""
    youngest = tuple(restrict(slices, [parked.range]))
    return replace(parked, generations=(*parked.generations, youngest)) if youngest else parked
