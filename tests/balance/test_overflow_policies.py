"""The policies of state larger than memory, each through the controller and its rules, in a model of a join."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import pairwise

import numpy as np
import pytest
from overflow_case import EPOCH, MB, RESULTS, ROUND, ROW_BYTES, RULES, History, Join, at_sites, join_of, run

from penstock.balance.decisions import CleanUp, Decision, Move, Park
from penstock.balance.overflow import CleanUps, Overflow
from penstock.balance.policies.active_disk import ActiveDisk
from penstock.balance.policies.lazy_disk import LazyDisk
from penstock.balance.policies.local import Local
from penstock.balance.victims import Victims
from penstock.state.directory import Group

MEMORY = 20 * MB
POLICIES = ["local", "lazy-disk", "active-disk", "memory", "hybrid", "even"]

HIGH_FIRST = Local(Overflow(victims=Victims(productive_first=True)), name="local, high output first")
EAGER = Local(Overflow(clean_ups=CleanUps(room=0.9)), name="local, with little hysteresis")


def crowded() -> Join:
    """Site 0 gets two thirds of the rows, each of the others one sixth."""
    return at_sites(join_of(3, MEMORY, [4, 2, 1, 1]), [0, 0, 1, 0, 0, 2])


def one_productive_site(sites: int = 3, growth: float = 0.003) -> Join:
    """The groups of site 0 have four times as many results as the others."""
    join = at_sites(join_of(sites, MEMORY, growth=growth), range(sites))
    return replace(join, ratios=np.where(join.homes == 0, 4.0, 1.0) * join.ratios)


@cache
def growing(policy: str) -> History:
    """State grows to three times the memory of all sites."""
    return run(crowded(), policy, 1000)


@cache
def shrinking(policy: str) -> History:
    """After the state has exceeded the memory of all sites, hardly any rows arrive, and it expires."""
    before = run(join_of(3, MEMORY, [4, 2, 1, 1], growth=0.006, expiry=0.004), policy, 600).end
    assert before.parked.sum() > 0.3 * MEMORY
    return run(replace(before, rates=before.rates / 20), policy, 1500)


def parked_or_cleaned(history: History, kind: type[Park] | type[CleanUp]) -> dict[Group, list[int]]:
    """The rounds in which each group was parked, or cleaned up."""
    rounds: dict[Group, list[int]] = {}
    for number, made in history.decided(kind):
        assert isinstance(made.change, Park | CleanUp)
        rounds.setdefault(made.change.group, []).append(number)
    return rounds


def sites_of(history: History, number: int, kind: type[Park] | type[Move]) -> set[int]:
    """The sites that parked in a round, or that gave or received."""
    found: set[int] = set()
    for made in history.outcomes[number].accepted:
        match made.change:
            case Park(group) if kind is Park:
                found.add(history.outcomes[number].directory.home(group))
            case Move(_, source, target) if kind is Move:
                found |= {source, target}
    return found


# -- memory is bounded, and nothing is lost ----------------------------------------------------------------------------


@pytest.mark.parametrize("policy", POLICIES)
def test_active_state_stays_within_memory_but_for_the_growth_of_some_rounds(policy: str) -> None:
    history = growing(policy)
    assert history.end.active.sum() + history.end.parked.sum() > 2.9 * 3 * MEMORY
    assert max(float(held.max()) for held in history.held) <= 1.15 * MEMORY
    assert history.refused() == []


@pytest.mark.parametrize("policy", POLICIES)
def test_nothing_is_parked_in_a_run_that_does_not_park(policy: str) -> None:
    for join in (replace(crowded(), may_park=False), replace(crowded(), memory=0)):
        history = run(join, policy, 500)
        assert history.end.held.max() > MEMORY
        assert history.decided(Park) == []
        assert history.refused() == [], "policies know what a run does not do"


@pytest.mark.parametrize("policy", POLICIES)
def test_nothing_is_parked_while_all_fits(policy: str) -> None:
    history = run(join_of(3, MEMORY, [4, 2, 1, 1]), policy, 250)
    assert 0.7 * MEMORY < history.end.held.max() < MEMORY
    assert history.decided(Park) == []


# -- which groups ------------------------------------------------------------------------------------------------------


def test_low_output_first_produces_more_before_the_clean_up_than_high_output_first() -> None:
    join = join_of(1, MEMORY, [4, 2, 1], groups=32)
    low, high = (run(join, policy, 1000).end for policy in ("local", HIGH_FIRST))
    assert low.produced > 1.5 * high.produced
    assert low.owed.sum() < 0.6 * high.owed.sum()
    assert low.produced + low.owed.sum() == pytest.approx(high.produced + high.owed.sum()), "of the same results"


def test_at_most_three_tenths_of_a_site_are_parked_at_a_time() -> None:
    history = growing("local")
    rounds = {number for number, _ in history.decided(Park)}
    for number in rounds:
        sites = sites_of(history, number, Park)
        parked = sum(made.cost for made in history.outcomes[number].accepted)
        assert 0 < parked <= 0.3 * sum(history.held[number][site] for site in sites)


def test_a_group_that_is_more_than_that_is_parked_alone() -> None:
    """One of four groups gets three quarters of the rows, and none of them has a partner."""
    join = join_of(1, MEMORY, [0, 1, 1, 1], groups=4)
    large = np.arange(len(join.rates)) < len(join.rates) // 4
    history = run(replace(join, rates=np.where(large, 9.0, 1.0) * join.rates), "local", 200)
    (number, first), *more = history.decided(Park)
    assert first.cost > 0.3 * MEMORY
    assert number not in [later for later, _ in more]


def test_groups_without_rows_for_long_go_first() -> None:
    """No row has a partner, so all groups are equally productive. Two have got no rows for some time, and are therefore
    smaller than the others."""
    join = join_of(1, MEMORY, [0], groups=16)
    early = run(join, "local", 200).end
    assert early.parked.sum() == 0
    cold = (np.arange(len(join.rates)) // (len(join.rates) // 16) % 8) == 5
    history = run(replace(early, rates=np.where(cold, 0.0, early.rates)), "local", 250)
    assert {str(made.change) for _, made in history.decided(Park)[:2]} == {"park 0101", "park 1101"}


def test_small_groups_are_not_parked_for_nothing() -> None:
    join = join_of(1, MEMORY, groups=16)
    tiny = np.arange(len(join.rates)) < len(join.rates) // 16
    history = run(replace(join, rates=np.where(tiny, 0.02, 1.0) * join.rates, ratios=np.where(tiny, 0.0, 1.0)),
                  "local", 600)  # fmt: skip
    assert len(history.decided(Park)) > 4
    assert Group(0, 4) not in parked_or_cleaned(history, Park)


# -- moving before parking ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", ["lazy-disk", "active-disk", "memory", "hybrid", "even"])
def test_less_is_parked_than_by_each_site_alone_where_another_has_room(policy: str) -> None:
    """The rows of all sites fit into their memory, but not where they arrive."""
    local, other = (run(crowded(), name, 300) for name in ("local", policy))
    assert local.parked_bytes() > 0.5 * MEMORY
    assert other.parked_bytes() < 0.1 * local.parked_bytes()
    assert other.end.produced > local.end.produced


def test_half_of_the_difference_moves_and_the_productive_groups_first() -> None:
    history = run(crowded(), "lazy-disk", 20)
    number, first = history.decided(Move)[0]
    assert isinstance(first.change, Move)
    moved = [made for one, made in history.decided(Move) if one == number]
    held, (source, target) = history.held[number], (first.change.source, first.change.target)
    half = (held[source] - held[target]) / 2
    assert 0.8 * half < sum(made.cost for made in moved) <= half
    ratios = [history.end.ratios[made.change.group.low >> 54] for made in moved if isinstance(made.change, Move)]
    assert {ratio / RESULTS for ratio in ratios} == {4, 2}, "a half of its groups has a ratio of 1, and stays"


@pytest.mark.parametrize("policy", ["memory", "hybrid", "even"])
def test_nothing_is_parked_while_full_sites_are_relieved_one_after_the_other(policy: str) -> None:
    """Two of four sites are too full, and one group moves in a round."""
    join = at_sites(join_of(4, MEMORY, growth=0.0002), [0, 1, 2, 3])
    full = replace(join, active=np.where(join.homes < 2, 1.2, 0.2) * 4 * MEMORY / len(join.rates))
    assert sum(full.held > MEMORY) == 2
    history = run(full, policy, 200, rules=replace(RULES, budget=1))
    assert history.decided(Park) == []
    assert history.end.held.max() <= MEMORY


def test_a_pair_rests_between_two_moves() -> None:
    """The load alternates, so that there is often a reason to move (figure 14)."""
    join, shortest = replace(join_of(2, MEMORY, expiry=0.02), swing=100), []
    for span in (ROUND, 45.0):
        history = run(join, LazyDisk(span=span), 1000)
        rounds = sorted({number for number, _ in history.decided(Move)})
        shortest.append(ROUND * min(later - earlier for earlier, later in pairwise(rounds)))
    assert shortest[0] < 45 <= shortest[1]


@pytest.mark.parametrize("policy", ["lazy-disk", "active-disk", "memory", "hybrid", "even"])
def test_no_site_parks_and_moves_in_one_round(policy: str) -> None:
    history = growing(policy)
    rounds = range(len(history.outcomes))
    assert any(sites_of(history, number, Move) for number in rounds)
    assert not any(sites_of(history, number, Move) & sites_of(history, number, Park) for number in rounds)


# -- active-disk -------------------------------------------------------------------------------------------------------


def test_active_disk_produces_more_than_lazy_disk_where_productivity_differs() -> None:
    lazy, active = (run(one_productive_site(), policy, 2000).end for policy in ("lazy-disk", "active-disk"))
    assert active.produced > 1.15 * lazy.produced


def test_active_disk_is_lazy_disk_where_all_sites_are_alike() -> None:
    lazy, active = (
        run(at_sites(join_of(3, MEMORY), [0, 1, 2]), policy, 1000) for policy in ("lazy-disk", "active-disk")
    )
    assert [outcome.accepted for outcome in active.outcomes] == [outcome.accepted for outcome in lazy.outcomes]


def test_state_is_parked_for_others_only_as_far_as_the_query_exceeds_all_memory() -> None:
    history = run(one_productive_site(), "active-disk", 1000)
    grown = one_productive_site().rates.sum() * ROW_BYTES * ROUND / EPOCH  # in a round
    forced = parked_for_others(history)
    assert forced
    for number, _ in forced:
        so_far = sum(made.cost for one, made in forced if one <= number)
        assert so_far <= (number + 1) * grown * 1.01 - 3 * MEMORY
        assert history.held[number].min() >= 0.8 * history.held[number].max()


def test_so_much_is_parked_for_others_that_groups_move_there() -> None:
    history = run(one_productive_site(sites=4, growth=0.001), "active-disk", 2000)
    forced = parked_for_others(history)
    assert forced
    for number in {number for number, _ in forced}:
        at_once = sum(made.cost for one, made in forced if one == number)
        assert history.held[number].min() - at_once < 0.8 * history.held[number].max()


def parked_for_others(history: History) -> list[tuple[int, Decision]]:
    return [(number, made) for number, made in history.decided(Park) if "per MB" in made.reason]


def test_a_site_does_not_park_for_others_what_it_would_clean_up_again() -> None:
    """Hardly any rows arrive, much is parked, and the sites differ."""
    start = replace(one_productive_site(), expiry=0.002)
    before = run(start, ActiveDisk(apart=1e9), 1200).end
    history = run(replace(before, rates=before.rates / 20), ActiveDisk(apart=1.2), 1000)
    assert history.decided(CleanUp)
    for number, made in history.decided(Park):
        assert history.held[number].max() > 0.7 * MEMORY, made


# -- clean-ups ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", POLICIES)
def test_what_is_parked_comes_back_when_there_is_room(policy: str) -> None:
    history = shrinking(policy)
    assert history.end.parked.sum() == 0
    assert history.end.owed.sum() == 0
    assert history.refused() == []


@pytest.mark.parametrize("policy", POLICIES)
def test_a_group_is_not_parked_again_soon_after_it_came_back(policy: str) -> None:
    """Load that comes and goes: sites fill up, park, have room, clean up, and fill up again."""
    now, histories = join_of(3, MEMORY, [4, 2, 1, 1], expiry=0.004), []
    for part in range(6):
        history = run(replace(now, rates=now.rates * (2.5 if part % 2 == 0 else 0.1)), policy, 400)
        now = replace(history.end, rates=now.rates)
        histories.append(history)
    assert sum(len(history.decided(Park)) for history in histories) > 20
    assert sum(len(history.decided(CleanUp)) for history in histories) > 20
    for history in histories:
        parked, cleaned = (parked_or_cleaned(history, kind) for kind in (Park, CleanUp))
        for group in parked.keys() & cleaned.keys():
            assert min(abs(a - b) for a in parked[group] for b in cleaned[group]) > 5, group


def test_without_the_gap_between_both_they_would_alternate() -> None:
    now = join_of(1, MEMORY, [4, 2, 1, 1], growth=0.002, expiry=0.001, groups=32)
    history = run(now, EAGER, 1500)
    assert len(history.decided(CleanUp)) > 20
    assert len(run(now, "local", 1500).decided(CleanUp)) == 0


def test_a_clean_up_leaves_half_of_the_memory_free() -> None:
    history = shrinking("local")
    homes = history.end.directory
    for number in {number for number, _ in history.decided(CleanUp)}:
        for site in range(3):
            mine = [made for made in history.outcomes[number].accepted
                    if isinstance(made.change, CleanUp) and homes.home(made.change.group) == site]  # fmt: skip
            if mine:
                assert history.held[number][site] + sum(made.cost for made in mine) <= 0.5 * MEMORY


def test_so_much_comes_back_in_a_round_and_the_most_productive_first() -> None:
    """Groups of a megabyte are parked, and hardly any state is active."""
    join = join_of(1, MEMORY, [1, 3, 9, 27], growth=0.0005, groups=8)
    of_keys = np.full(len(join.rates), 8 * MB / len(join.rates))
    parked = replace(join, parked=of_keys, active=of_keys / 100)
    history = run(parked, Local(Overflow(clean_ups=CleanUps(most_bytes=int(2.5 * MB)))), 30)
    made = [decision for number, decision in history.decided(CleanUp) if number == history.decided(CleanUp)[0][0]]
    assert {str(decision.change) for decision in made} == {"clean up 011", "clean up 111"}


@pytest.mark.parametrize("policy", POLICIES)
def test_where_memory_is_no_longer_bounded_all_comes_back(policy: str) -> None:
    before = run(join_of(3, MEMORY, [4, 2, 1, 1]), policy, 600).end
    assert before.parked.sum() > 0
    history = run(replace(before, memory=0, may_park=False), policy, 300)
    assert history.end.parked.sum() == 0
