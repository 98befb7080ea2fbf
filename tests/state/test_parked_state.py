"""Parked state keeps every row of every port exactly once, whatever is parked, cut and freed."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from random import Random

from penstock.state.hash_ranges import HashRange, common, remaining
from penstock.state.model import SiteState, park, parked_inside, unpark
from penstock.state.runs import RunFile, Slice, restrict

SPACE = 64


def run(name: str, port: int = 0) -> RunFile:
    return RunFile(name, port, 10, 100, "", 0, 1, 2)


def site(*slices: Slice) -> SiteState:
    return SiteState(tuple(slices), ())


def hashes_of(slices: tuple[Slice, ...]) -> list[tuple[str, int]]:
    return sorted((s.run.name, h) for s in slices for h in range(s.range.low, s.range.high))


def test_the_slices_of_all_ports_become_a_generation() -> None:
    a, b = Slice(run("a"), HashRange(0, 64)), Slice(run("b", port=1), HashRange(0, 64))
    parked = park(site(a, b), HashRange(16, 32))
    (found,) = parked.parked
    assert found.range == HashRange(16, 32)
    assert found.generations == ((Slice(a.run, HashRange(16, 32)), Slice(b.run, HashRange(16, 32))),)
    assert {s.range for s in parked.slices} == {HashRange(0, 16), HashRange(32, 64)}


def test_what_came_since_becomes_the_next_generation() -> None:
    first = park(site(Slice(run("a"), HashRange(0, 64))), HashRange(0, 64))
    second = park(replace(first, active=(Slice(run("b"), HashRange(0, 64)),)), HashRange(16, 32))
    generations = {p.range: [[s.run.name for s in g] for g in p.generations] for p in second.parked}
    assert generations == {
        HashRange(0, 16): [["a"]],
        HashRange(16, 32): [["a"], ["b"]],
        HashRange(32, 64): [["a"]],
    }
    assert {s.range for s in second.active} == {HashRange(0, 16), HashRange(32, 64)}
    assert park(first, HashRange(0, 64)) == first  # nothing is active there


def test_active_slices_are_cut_only_where_something_is_not_parked() -> None:
    """A lookup takes longer with each slice that there is."""
    state = site(Slice(run("a"), HashRange(0, 64)))
    for low in (0, 16, 32):
        state = park(state, HashRange(low, low + 16))
    state = park(replace(state, active=(Slice(run("b"), HashRange(0, 48)),)), HashRange(40, 48))
    assert [s.range for s in state.active] == [HashRange(0, 40)]


def test_state_outside_of_parked_ranges_is_no_generation() -> None:
    first = park(site(Slice(run("a"), HashRange(0, 32))), HashRange(0, 32))
    wider = park(replace(first, slices=(Slice(run("b"), HashRange(32, 64)),)), HashRange(0, 64))
    names = {p.range: [[s.run.name for s in g] for g in p.generations] for p in wider.parked}
    assert names == {HashRange(0, 32): [["a"]], HashRange(32, 64): [["b"]]}


def test_all_generations_become_state_again() -> None:
    state = park(site(Slice(run("a"), HashRange(0, 64))), HashRange(0, 64))
    state = park(replace(state, active=(Slice(run("b"), HashRange(0, 64)),)), HashRange(0, 64))
    freed = unpark(replace(state, active=(Slice(run("c"), HashRange(0, 64)),)), HashRange(0, 16))
    assert [(s.run.name, s.range) for s in freed.slices] == [(name, HashRange(0, 16)) for name in "abc"]
    assert [s.range for s in freed.active] == [HashRange(16, 64)]
    assert [p.range for p in freed.parked] == [HashRange(16, 64)]
    again = unpark(freed, HashRange(16, 64))
    assert [s.range for s in again.slices] == [HashRange(0, 64)] * 3  # in as few slices as before
    assert not again.parked
    assert not again.active


def test_no_slice_is_lost_or_doubled() -> None:
    for seed in range(200):
        random = Random(seed)
        state = site()
        names = iter(range(10**6))
        for _ in range(30):
            low = random.randrange(SPACE)
            part = HashRange(low, random.randrange(low, SPACE) + 1)
            before = hashes_of(state.all_slices())
            match random.randrange(3):
                case 0:
                    fresh = run(f"r{next(names)}", random.randrange(2))
                    inside_parked = common([part], state.parked_ranges())
                    free = remaining([part], inside_parked)
                    state = replace(
                        state,
                        slices=(*state.slices, *(Slice(fresh, one) for one in free)),
                        active=(*state.active, *(Slice(fresh, one) for one in inside_parked)),
                    )
                    before = sorted([*before, *hashes_of((Slice(fresh, part),))])
                case 1:
                    state = park(state, part)
                    assert not any(s.range.intersect(part) for s in (*state.slices, *state.active))
                case 2:
                    state = unpark(state, part)
                    assert not any(p.range.intersect(part) for p in state.parked)
            assert hashes_of(state.all_slices()) == before
            ranges = state.parked_ranges()
            assert all(a.high <= b.low for a, b in pairwise(ranges))
            assert not list(restrict(state.slices, ranges))
            assert not list(restrict(state.active, remaining([HashRange(0, SPACE)], ranges)))


def test_a_parked_range_is_cut_like_all_state() -> None:
    parked = park(site(Slice(run("a"), HashRange(0, 64))), HashRange(0, 64)).parked
    parts = list(parked_inside(parked, [HashRange(0, 8), HashRange(60, 100)]))
    assert [(p.range, p.generations[0][0].range) for p in parts] == [
        (HashRange(0, 8), HashRange(0, 8)),
        (HashRange(60, 64), HashRange(60, 64)),
    ]
