"""Parked state keeps every row of every port exactly once, whatever is parked, cut, merged and freed."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest

from penstock.state.hash_ranges import HashRange
from penstock.state.model import SiteState
from penstock.state.overflow import cut_parked, merge, park, unpark
from penstock.state.runs import RunFile, Slice

SPACE = 64


def run(name: str, port: int = 0) -> RunFile:
    return RunFile(name, port, 10, 100, "", 0, 1, 2)


def site(*slices: Slice) -> SiteState:
    return SiteState(tuple(slices), ())


def hashes_of(slices: tuple[Slice, ...]) -> list[tuple[str, int]]:
    return sorted((s.run.name, h) for s in slices for h in range(s.range.low, s.range.high))


def test_the_active_slices_of_all_ports_become_a_generation() -> None:
    a, b = Slice(run("a"), HashRange(0, 64)), Slice(run("b", port=1), HashRange(0, 64))
    parked = park(site(a, b), HashRange(16, 32))
    (found,) = parked.parked
    assert found.range == HashRange(16, 32)
    assert found.generations == ((Slice(a.run, HashRange(16, 32)), Slice(b.run, HashRange(16, 32))),)
    assert {s.range for s in parked.slices} == {HashRange(0, 16), HashRange(32, 64)}


def test_what_came_since_becomes_the_next_generation() -> None:
    first = park(site(Slice(run("a"), HashRange(0, 64))), HashRange(0, 64))
    second = park(SiteState((Slice(run("b"), HashRange(0, 64)),), (), parked=first.parked), HashRange(16, 32))
    generations = {p.range: [[s.run.name for s in g] for g in p.generations] for p in second.parked}
    assert generations == {
        HashRange(0, 16): [["a"]],
        HashRange(16, 32): [["a"], ["b"]],
        HashRange(32, 64): [["a"]],
    }
    assert park(first, HashRange(0, 64)) == first  # nothing is active there


def test_a_merge_leaves_the_rest_of_the_range_as_it_is() -> None:
    state = site(Slice(run("a"), HashRange(0, 64)))
    for name in ("b", "c"):
        state = park(state, HashRange(0, 64))
        state = SiteState((Slice(run(name), HashRange(0, 64)),), (), parked=state.parked)
    state = merge(park(state, HashRange(0, 64)), HashRange(0, 16), 0, 2)
    names = [[[s.run.name for s in g] for g in p.generations] for p in state.parked]
    assert names == [[["a", "c"], ["b"]], [["a"], ["b"], ["c"]]]
    with pytest.raises(AssertionError, match="have been merged"):
        unpark(state, HashRange(0, 16))


def test_no_slice_is_lost_or_doubled() -> None:
    for seed in range(200):
        random = Random(seed)
        state = site()
        names = iter(range(10**6))
        for _ in range(30):
            low = random.randrange(SPACE)
            part = HashRange(low, random.randrange(low, SPACE) + 1)
            before = hashes_of(state.all_slices())
            match random.randrange(4):
                case 0:
                    fresh = Slice(run(f"r{next(names)}", random.randrange(2)), part)
                    state = SiteState((*state.slices, fresh), (), parked=state.parked)
                    before = sorted([*before, *hashes_of((fresh,))])
                case 1:
                    state = park(state, part)
                    assert not any(s.range.intersect(part) for s in state.slices)
                case 2 if state.parked:
                    whole = random.choice(state.parked)
                    if len(whole.generations) > 1:
                        state = merge(state, whole.range.intersect(part) or whole.range, 0, 1)
                case 3 if state.parked:
                    whole = random.choice(state.parked)
                    if len(whole.generations) == 1:
                        state = unpark(state, whole.range)
            assert hashes_of(state.all_slices()) == before
            ranges = [parked.range for parked in state.parked]
            assert all(a.high <= b.low for a, b in pairwise(ranges))


def test_a_parked_range_is_cut_like_all_state() -> None:
    (parked,) = park(site(Slice(run("a"), HashRange(0, 64))), HashRange(0, 64)).parked
    parts = list(cut_parked(parked, [HashRange(0, 8), HashRange(60, 100)]))
    assert [(p.range, p.generations[0][0].range) for p in parts] == [
        (HashRange(0, 8), HashRange(0, 8)),
        (HashRange(60, 64), HashRange(60, 64)),
    ]
