from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from even_case import World, even_keys, figures_of, world
from hypothesis import given
from hypothesis import strategies as st

from penstock.balance.decisions import Merge, Move, Scale, SplitGroup
from penstock.balance.policies.diffusion import Diffusion
from penstock.balance.stats import RoundStats
from penstock.state.directory import Group, uniform

PLAIN = Diffusion(theta=None)


def filled(rows: list[int], *occupancy: float) -> RoundStats:
    directory = uniform(len(occupancy), len(rows) // len(occupancy))
    stats = figures_of(directory, rows, state_bytes=[100 * count for count in rows], capacity=1000)
    return replace(stats, backlog=1000 * np.asarray(occupancy))


def moves(stats: RoundStats) -> list[Move]:
    made = [decision.change for decision in PLAIN.decide(stats)]
    assert all(isinstance(change, Move) for change in made)
    return made  # type: ignore[return-value]


def test_a_supplier_gives_the_group_that_is_nearest_to_half_of_the_difference() -> None:
    stats = filled([5000, 3100, 1000, 900, 1000, 1000, 1000, 1000], 0.8, 0.0)
    (decision,) = PLAIN.decide(stats)
    assert decision.change == Move(Group(1, 3), 0, 1)  # 10 s and 4 s: three seconds too many
    assert decision.reason == (
        "site 0 is a supplier (its buffer is 80% full), site 1 a consumer (its buffer is 0% full)"
    )
    assert decision.gain == pytest.approx(1 - 7.1 / 10)
    assert decision.cost == 310_000


def test_the_fullest_gives_to_the_one_with_least_to_do_and_each_takes_part_once() -> None:
    rows = [2000] * 4 + [1000] * 4 + [2000] * 4 + [900] * 4
    found = moves(filled(rows, 0.6, 0.005, 0.9, 0.0))
    assert [(move.source, move.target) for move in found] == [(2, 3), (0, 1)]


def test_with_more_suppliers_than_consumers_some_wait() -> None:
    found = moves(filled([2000] * 8 + [1000] * 4 + [100] * 4, 0.6, 0.7, 0.3, 0.0))
    assert [(move.source, move.target) for move in found] == [(1, 3)]


@pytest.mark.parametrize("occupancy", [(0.5, 0.0), (0.8, 0.01), (0.3, 0.3), (0.9, 0.9)])
def test_without_supplier_or_consumer_nothing_moves(occupancy: tuple[float, float]) -> None:
    assert moves(filled([1000] * 8, *occupancy)) == []


def test_a_group_that_would_only_change_the_roles_stays() -> None:
    assert moves(filled([9000, 0, 0, 0, 1000, 0, 0, 0], 0.8, 0.0)) == []


def test_what_is_pending_counts_as_work_to_be_done() -> None:
    stats = figures_of(uniform(2, 4), [1000] * 8, pending=[0, 700, 0, 0, 0, 0, 0, 0], capacity=1000)
    assert moves(stats) == []  # a supplier that takes 4.7 s, and no group of less than 0.7 s
    stats = figures_of(uniform(2, 4), [1700, 1700, 300, 300] + [1000] * 4, pending=[0, 700] + [0] * 6, capacity=1000)
    assert moves(stats) == [Move(Group(2, 3), 0, 1)]


def test_without_a_bound_for_buffers_sites_are_compared_by_utilisation() -> None:
    (decision,) = PLAIN.decide(figures_of(uniform(2, 4), [2000] * 4 + [1000] * 4))
    assert decision.change == Move(Group(0, 3), 0, 1)
    assert decision.reason == "site 0 is a supplier (it is busy 100%), site 1 a consumer (it is busy 50%)"


def test_the_number_of_sites_comes_first_where_it_may_change() -> None:
    stats = filled([1000] * 8, 0.9, 0.8)
    (decision,) = Diffusion(elastic=True).decide(stats)
    assert decision.change == Scale(3)
    assert PLAIN.decide(stats) == []


def test_groups_that_stay_are_kept_neither_too_large_nor_too_hot() -> None:
    stats = filled([5000, 3100, 1000, 900, 1000, 1000, 1000, 1000], 0.8, 0.0)
    made = [decision.change for decision in Diffusion().decide(stats)]
    assert made == [Move(Group(1, 3), 0, 1), SplitGroup(Group(0, 3))]  # the one that moves is not split meanwhile
    large = figures_of(uniform(2, 2), [1000] * 4, state_rows=[10, 10, 10, 201])
    assert [decision.change for decision in Diffusion(theta=100).decide(large)] == [SplitGroup(Group(3, 2))]


def test_what_was_split_becomes_one_again_but_not_what_there_was_at_first() -> None:
    crowded, first = uniform(2, 64), uniform(2, 32)
    split = crowded.merged(crowded.groups[0].parent)  # one group is left as it was
    small = [decision.change for decision in Diffusion().decide(figures_of(split, [1000] * 127))]
    assert len(small) == 63
    assert all(isinstance(change, Merge) for change in small)
    assert Diffusion().decide(figures_of(first, [1000] * 64)) == []


@given(
    rows=st.lists(st.integers(0, 5000), min_size=32, max_size=32),
    occupancy=st.lists(st.floats(0, 1), min_size=4, max_size=4),
    bound=st.booleans(),
)
def test_no_move_makes_the_slowest_site_slower(rows: list[int], occupancy: list[float], bound: bool) -> None:
    stats = filled(rows, *occupancy) if bound else figures_of(uniform(4, 8), rows)
    found = moves(stats)
    assert found == moves(stats)
    times = stats.busy.copy()
    for move in found:
        took = rows[stats.directory.place(move.group)] / 1000
        assert max(times[move.source] - took, times[move.target] + took) < times[move.source]
    assert len({move.source for move in found}) == len({move.target for move in found}) == len(found)


@given(st.permutations(range(4)))
def test_the_numbers_of_sites_mean_nothing(order: list[int]) -> None:
    rows = [1000 + 37 * n for n in range(16)]  # so that no two groups or sites are alike
    occupancy = [0.9, 0.0, 0.6, 0.005]
    plain = figures_of(uniform(4, 4), rows, speeds=[0.5, 1, 0.4, 1.1], capacity=1000)
    plain = replace(plain, backlog=1000 * np.asarray(occupancy))
    homes = tuple(order[home] for home in plain.directory.homes)
    back = np.argsort(order)
    permuted = replace(
        plain, directory=replace(plain.directory, homes=homes), busy=plain.busy[back], backlog=plain.backlog[back]
    )
    assert moves(permuted) == [Move(m.group, order[m.source], order[m.target]) for m in moves(plain)]
    assert len(moves(plain)) == 2


def slowed(deadline: float = 0.0, capacity: int = 0) -> World:
    """One of eight sites at half speed."""
    return replace(world([0.5] + [1.0] * 7, even_keys()), deadline=deadline, capacity=capacity)


def test_a_slowed_site_gives_until_nobody_is_a_consumer() -> None:
    end = slowed().after(PLAIN, 12)
    assert end.evenness() > 0.8 > slowed().evenness()
    assert not any(end.history[-4:])
    assert max(map(len, end.history)) == 1  # one group for each supplier and round


def test_a_slowed_site_under_a_deadline_gives_until_its_buffer_is_no_longer_full() -> None:
    end = slowed(deadline=25.0, capacity=5000).after(PLAIN, 30)
    assert end.stats().occupancy.max() == 0
    assert 6 <= sum(map(len, end.history)) <= 9  # of sixteen groups about half
    assert not any(end.history[-10:])
