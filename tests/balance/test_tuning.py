from __future__ import annotations

from dataclasses import replace

import pytest
from even_case import changed, figures_of, groups_named
from hypothesis import given
from hypothesis import strategies as st

from penstock.balance.decisions import Decision, Merge, SplitGroup
from penstock.balance.stats import RoundStats
from penstock.balance.tuning import BOUNDS, tuned
from penstock.state.directory import Directory, uniform

FEW = replace(BOUNDS, least=1)


def texts(made: list[Decision]) -> list[str]:
    return [str(decision.change) for decision in made]


def state(*rows: int, sites: int = 1, came: int = 1000) -> RoundStats:
    """Groups of equal work that hold so many rows."""
    directory = uniform(sites, len(rows) // sites)
    return figures_of(directory, [came] * len(rows), state_rows=rows)


def test_a_group_above_two_theta_is_split() -> None:
    made = tuned(state(100, 201, 200, 500), theta=100)
    assert texts(made) == ["split 11", "split 01"]  # the largest first
    assert made[0].reason == "it holds 500 rows, more than 200"


def test_small_buddies_become_one() -> None:
    made = tuned(state(40, 90, 30, 30, 60, 100, 200, 20), theta=100, bounds=FEW)
    assert texts(made) == ["merge 01", "merge 00"]  # 160 rows are too many to be sure, 220 by far
    assert made[0].reason == "its halves hold 60 rows in total"


def test_neighbours_that_are_no_buddies_stay() -> None:
    directory = Directory(1, groups_named("00", "010", "011", "1"), (0, 0, 0, 0))
    stats = figures_of(directory, [1000] * 4, state_rows=[10, 100, 200, 10])
    assert tuned(stats, theta=100, bounds=FEW) == []


def test_buddies_at_two_sites_stay() -> None:
    apart = Directory(2, uniform(2, 8).groups, (0, 1) * 8)
    assert tuned(figures_of(apart, [1000] * 16, state_rows=[10] * 16), theta=100, bounds=FEW) == []
    together = uniform(2, 8)
    assert len(tuned(figures_of(together, [1000] * 16, state_rows=[10] * 16), theta=100, bounds=FEW)) == 8


def hot(rows: int, heaviest: int, sites: int = 4) -> RoundStats:
    """Sixteen groups a site, one of which has many rows."""
    directory = uniform(sites, 16)
    others = [1000] * (len(directory.groups) - 1)
    return figures_of(directory, [rows, *others], heaviest=[heaviest, *(10 for _ in others)])


def test_a_group_with_more_than_half_of_the_work_of_a_site_is_split() -> None:
    made = tuned(hot(12_000, 100), theta=10**9, bounds=replace(BOUNDS, least=16))
    assert texts(made) == ["split 000000"]
    assert made[0].reason == "it has 64% of the mean work of a site"
    assert tuned(hot(8_000, 100), theta=10**9, bounds=replace(BOUNDS, least=16)) == []


@pytest.mark.parametrize("heaviest", [12_000, 11_900])
def test_a_hot_group_of_one_key_is_not_split_nor_one_of_little_else(heaviest: int) -> None:
    assert tuned(hot(12_000, heaviest), theta=10**9, bounds=replace(BOUNDS, least=16)) == []


def test_one_site_has_no_use_for_splitting_a_hot_group() -> None:
    assert tuned(hot(12_000, 100, sites=1), theta=10**9, bounds=replace(BOUNDS, least=16)) == []


def test_hot_buddies_stay_two() -> None:
    directory = uniform(2, 4)
    warm = [3000, 3000, 1100, 1000, 2000, 2000, 2000, 1900]
    assert tuned(figures_of(directory, warm), theta=100, bounds=FEW) == []  # no two below 2000, a quarter of a site
    cold = [3000, 3000, 1000, 900, 2000, 2000, 2000, 2100]
    assert texts(tuned(figures_of(directory, cold), theta=100, bounds=FEW)) == ["merge 01"]


def test_a_round_with_hardly_any_rows_is_no_reason_to_merge() -> None:
    assert tuned(state(*[1] * 16, came=10), theta=100, bounds=replace(FEW, least=2)) != []
    assert tuned(state(*[1] * 16, came=5), theta=100, bounds=replace(FEW, least=2)) == []


@given(
    rows=st.lists(st.integers(0, 5000), min_size=64, max_size=64),
    held=st.lists(st.integers(0, 1000), min_size=64, max_size=64),
    theta=st.integers(1, 400),
    sites=st.sampled_from([1, 2, 4]),
)
def test_all_can_be_carried_out_within_the_bounds(rows: list[int], held: list[int], theta: int, sites: int) -> None:
    directory = uniform(sites, 64 // sites)
    stats = figures_of(directory, rows, state_rows=held)
    made = tuned(stats, theta)
    after = changed(directory, made)
    splits = [decision.change for decision in made if isinstance(decision.change, SplitGroup)]
    merges = [decision.change for decision in made if isinstance(decision.change, Merge)]
    assert len(after.groups) == 64 + len(splits) - len(merges)
    assert len(after.groups) >= min(64, 8 * sites)
    assert len(made) <= BOUNDS.changes
    assert len(set(splits)) == len(splits)
    for merge in merges:
        assert sum(held[directory.place(half)] for half in merge.group.halves) < 1.5 * theta
    for group, size in zip(directory.groups, held, strict=True):
        if size > 2 * theta and SplitGroup(group) not in splits:
            place = directory.place(group)
            assert rows[place] == stats.loads.heaviest[place] > 0 or len(made) == BOUNDS.changes


@given(st.integers(150, 250), st.integers(0, 100))
def test_a_size_that_wavers_is_not_split_and_merged_by_turns(size: int, less: int) -> None:
    theta = 100
    whole = figures_of(Directory(1, groups_named("0", "1"), (0, 0)), [1000, 1000], state_rows=[size, 150])
    after = changed(whole.directory, tuned(whole, theta, FEW))
    if len(after.groups) == 3:
        shrunk = size - min(less, size // 5)  # by up to a fifth
        halves = figures_of(after, [500, 500, 1000], state_rows=[shrunk // 2, shrunk - shrunk // 2, 150])
        assert tuned(halves, theta, FEW) == []


def test_there_are_bounds_to_splitting() -> None:
    bounds = replace(BOUNDS, hot=16, large=17)
    assert tuned(hot(12_000, 100), theta=10**9, bounds=replace(bounds, least=16)) == []
    large = figures_of(uniform(1, 16), [1000] * 16, state_rows=[500] * 16)
    assert len(tuned(large, theta=100, bounds=bounds)) == 1
