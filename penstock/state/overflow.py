"""Parked state: how the slices of a site become generations, and how generations are merged again. Pure.

Parking a range makes its active slices, of all ports, a new generation: a list of slices changes hands, and no row is
touched. So parked ranges are cut, moved and joined like all other state.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from penstock.state.hash_ranges import HashRange, remaining
from penstock.state.model import ParkedRange, SiteState
from penstock.state.runs import Slice, restrict


def park(site: SiteState, part: HashRange) -> SiteState:
    """Return the state with the active slices of a range parked as its youngest generation. Requires that no rows of
    the range are pending. A range without active slices stays as it is."""
    active = tuple(restrict(site.slices, [part]))
    if not active:
        return site
    before = [inside for parked in site.parked for inside in cut_parked(parked, [part])]
    new = [ParkedRange(one, ()) for one in remaining([part], [parked.range for parked in before])]
    grown = [_with_generation(parked, active) for parked in (*before, *new)]
    return replace(
        site,
        slices=outside(site.slices, [part]),
        parked=in_order([*_others(site.parked, part), *(parked for parked in grown if parked.generations)]),
    )


def merge(site: SiteState, part: HashRange, first: int, second: int) -> SiteState:
    """Return the state after a clean-up in a range, which must lie inside one parked range: two of its generations are
    one, in the place of the older."""
    (parked,) = (found for found in site.parked if found.range.intersect(part))
    older, younger = sorted((first, second))
    (inside,) = cut_parked(parked, [part])
    both = (*inside.generations[older], *inside.generations[younger])
    left = [both if n == older else known for n, known in enumerate(inside.generations) if n != younger]
    merged = replace(inside, generations=tuple(left))
    return replace(site, parked=in_order([*_others(site.parked, part), merged]))


def unpark(site: SiteState, part: HashRange) -> SiteState:
    """Return the state after the last clean-up in a range, which must have a single parked generation: it and the
    active one are the state of the range."""
    inside = [found for parked in site.parked for found in cut_parked(parked, [part])]
    assert all(len(parked.generations) == 1 for parked in inside), "its generations have been merged"
    freed = [piece for parked in inside for piece in parked.slices()]
    return replace(site, slices=(*site.slices, *freed), parked=in_order(_others(site.parked, part)))


def cut_parked(parked: ParkedRange, ranges: Iterable[HashRange]) -> Iterator[ParkedRange]:
    """Yield the parts of a parked range inside `ranges`, which must not overlap."""
    for part in ranges:
        if (both := parked.range.intersect(part)) is not None:
            generations = tuple(tuple(restrict(slices, [both])) for slices in parked.generations)
            yield replace(parked, range=both, generations=generations)


def outside(slices: Iterable[Slice], ranges: Sequence[HashRange]) -> tuple[Slice, ...]:
    """Return the parts of slices outside of `ranges`, which must not overlap."""
    return tuple(Slice(piece.run, part) for piece in slices for part in remaining([piece.range], ranges))


def in_order(parked: Iterable[ParkedRange]) -> tuple[ParkedRange, ...]:
    """Return parked ranges in order of hash."""
    return tuple(sorted(parked, key=lambda one: one.range))


def _others(known: Sequence[ParkedRange], part: HashRange) -> Iterator[ParkedRange]:
    """Yield what is parked outside of a range."""
    for parked in known:
        yield from cut_parked(parked, remaining([parked.range], [part]))


def _with_generation(parked: ParkedRange, active: Sequence[Slice]) -> ParkedRange:
    """Return the range with its part of the active slices as the youngest generation, if there are any."""
    inside = tuple(restrict(active, [parked.range]))
    return replace(parked, generations=(*parked.generations, inside)) if inside else parked
