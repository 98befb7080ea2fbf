from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from flux_case import any_round, applied, homes, moves, round_of, with_sites_renamed
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from penstock.balance.decisions import Decision, Move
from penstock.balance.policies.memory import Memory
from penstock.balance.policy import Paced
from penstock.balance.stats import FloatArray, RoundStats
from penstock.state.directory import Directory, Group, uniform

MEMORY = Memory()
TWO_SITES = homes(uniform(2, 2), 0, 0, 0, 1)  # three groups at site 0, one at site 1
MB = 1_000_000


def held(stats: RoundStats, directory: Directory) -> FloatArray:
    return replace(stats, directory=directory).of_sites(stats.loads.state_bytes)


def of_state(*state: int, memory: int = 0) -> RoundStats:
    return round_of(TWO_SITES, [10, 20, 30, 60], [100, 100], state=[size * MB for size in state], memory=memory * MB)


def test_the_largest_group_that_brings_sites_closer_together_moves() -> None:
    assert moves(MEMORY.decide(of_state(100, 540, 210, 300))) == [(1, 0, 1)]  # 310 to 840, and before 850 to 300
    assert moves(MEMORY.decide(of_state(100, 550, 200, 300))) == [(2, 0, 1)]  # not 300 to 850, but 650 to 500


def test_a_decision_says_why_what_it_gains_and_what_it_costs() -> None:
    reason = "site 0 holds 1.2 GB of state and may hold 900 MB, site 1 200 MB"
    move = Move(Group(1, 2), 0, 1)
    # Site 1 is as busy as site 0 before; 20 of 60 rows more make it slower by a third.
    expected = Decision(move, reason, pytest.approx(-1 / 3), 500 * MB)
    assert MEMORY.decide(of_state(300, 500, 400, 200, memory=900)) == (expected,)


def test_without_a_bound_the_reason_names_none() -> None:
    (made,) = MEMORY.decide(of_state(300, 500, 400, 200))
    assert made.reason == "site 0 holds 1.2 GB of state, site 1 200 MB"


@pytest.mark.parametrize(("memory", "moved"), [(0, []), (1100, []), (950, [(0, 0, 1)])])
def test_small_differences_matter_where_memory_is_short(memory: int, moved: list[tuple[int, int, int]]) -> None:
    assert moves(MEMORY.decide(of_state(50, 500, 450, 900, memory=memory))) == moved


def test_a_site_that_holds_less_than_the_average_gives_nothing() -> None:
    directory = homes(uniform(4, 2), 0, 0, 1, 1, 2, 2, 3, 3)
    less, more = ([50, 50, first, 5, 15, 15, 0, 0] for first in (35, 45))  # 40 or 50, and on average 42.5 or 45
    assert moves(MEMORY.decide(round_of(directory, [1] * 8, [100] * 4, state=less))) == [(0, 0, 3)]
    assert moves(MEMORY.decide(round_of(directory, [1] * 8, [100] * 4, state=more))) == [(0, 0, 3), (3, 1, 2)]


def test_a_group_that_fits_comes_before_a_larger_one() -> None:
    assert moves(MEMORY.decide(of_state(100, 500, 450, 400))) == [(1, 0, 1)]
    assert moves(MEMORY.decide(of_state(100, 500, 450, 400, memory=860))) == [(2, 0, 1)]


def test_where_nothing_fits_state_is_evened_out_all_the_same() -> None:
    assert moves(MEMORY.decide(of_state(100, 500, 450, 400, memory=300))) == [(1, 0, 1)]


def test_a_busy_site_receives_state_too() -> None:
    stats = of_state(300, 500, 400, 200)
    busy = replace(stats, busy=np.array([0.1, 1.0]), share=np.ones(2))
    assert moves(MEMORY.decide(busy)) == [(1, 0, 1)]


def test_there_is_nothing_to_decide_without_state() -> None:
    assert moves(MEMORY.decide(of_state(0, 0, 0, 0))) == []
    assert moves(MEMORY.decide(round_of(uniform(1), [1] * 16, [100], state=[5] * 16))) == []


@settings(deadline=None)
@given(any_round())
def test_a_site_gives_or_receives_at_most_once(stats: RoundStats) -> None:
    sites = [site for _, source, target in moves(MEMORY.decide(stats)) for site in (source, target)]
    assert len(sites) == len(set(sites))


@settings(deadline=None)
@given(any_round())
def test_every_move_brings_two_sites_closer_together(stats: RoundStats) -> None:
    for made in MEMORY.decide(stats):
        assert isinstance(made.change, Move)
        pair = [made.change.source, made.change.target]
        before = held(stats, stats.directory)[pair]
        after = held(stats, applied(stats.directory, [made]))[pair]
        assert abs(after[0] - after[1]) < before[0] - before[1]


@settings(deadline=None)
@given(any_round(), st.randoms())
def test_the_numbers_of_sites_do_not_matter(stats: RoundStats, random) -> None:  # type: ignore[no-untyped-def]
    assume(len(set(held(stats, stats.directory))) == stats.directory.sites)
    names = random.sample(range(stats.directory.sites), stats.directory.sites)
    expected = [(group, names[source], names[target]) for group, source, target in moves(MEMORY.decide(stats))]
    assert moves(MEMORY.decide(with_sites_renamed(stats, names))) == expected


@settings(deadline=None)
@given(any_round())
def test_it_comes_to_rest_where_no_single_group_helps(stats: RoundStats) -> None:
    unbounded = replace(stats, memory=0)
    for _ in range(200):
        decisions = MEMORY.decide(unbounded)
        if not decisions:
            break
        unbounded = replace(unbounded, directory=applied(unbounded.directory, decisions))
    state = held(unbounded, unbounded.directory)
    most, least, mine = state.argmax(), state.argmin(), np.asarray(unbounded.directory.homes) == state.argmax()
    sizes = unbounded.loads.state_bytes[mine]
    helps = (sizes > 0) & (sizes < state[most] - state[least])
    assert state[most] < MEMORY.imbalance * state[least] or not helps.any()


def test_a_site_that_lost_half_of_its_memory_sheds_what_is_too_much() -> None:
    # Section 6.2: 128 groups of 6 MB at each site are 768 MB. Here all sites may hold 800 MB, and one has 1,152 MB.
    directory = uniform(8, 128)
    few = tuple(0 if home == 1 and n % 2 else home for n, home in enumerate(directory.homes))
    directory, state = replace(directory, homes=few), np.full(1024, 6 * MB)
    for _ in range(64):
        stats = round_of(directory, [1] * 1024, [100] * 8, state=state, memory=800 * MB)
        directory = applied(directory, MEMORY.decide(stats))
    assert held(stats, directory).max() <= 800 * MB
    assert moves(MEMORY.decide(replace(stats, directory=directory))) == []


def test_it_says_how_long_rounds_are() -> None:
    assert isinstance(MEMORY, Paced)
    assert MEMORY.next_round(5.0, False, None) < 5.0
