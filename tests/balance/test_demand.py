from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from even_case import even_keys, figures_of, world
from hypothesis import given
from hypothesis import strategies as st

from penstock.balance.estimate import demand
from penstock.balance.stats import RoundStats
from penstock.state.directory import uniform

ROWS = [1000, 2000, 3000, 4000, 1000, 2000, 3000, 4000]


def times(stats: RoundStats) -> list[float]:
    asked = demand(stats)
    return [float(t) for t in stats.of_sites(asked.work) / asked.speeds]


def test_a_site_that_takes_twice_as_long_for_a_row_has_half_the_speed() -> None:
    asked = demand(figures_of(uniform(2, 4), ROWS, speeds=[1, 0.5]))
    assert asked.speeds == pytest.approx([4 / 3, 2 / 3])
    assert asked.work == pytest.approx(np.asarray(ROWS) / 750)  # seconds at a site of the average speed
    assert asked.ideal == pytest.approx(20_000 / 1500)


def test_a_group_of_costly_rows_does_not_make_its_site_slow() -> None:
    stats = figures_of(uniform(2, 4), [10_000] * 8)
    seconds = stats.loads.seconds * np.asarray([10, 1, 1, 1, 1, 1, 1, 1])
    stats = replace(stats, loads=replace(stats.loads, seconds=seconds), busy=np.asarray([130.0, 40.0]))
    asked = demand(stats)
    assert asked.speeds == pytest.approx([1, 1], rel=0.05)
    assert asked.work[0] == pytest.approx(100, rel=0.1)


def test_what_was_not_measured_is_shared_out_by_rows() -> None:
    stats = figures_of(uniform(1, 4), [100, 200, 300, 400])
    stats = replace(stats, loads=replace(stats.loads, seconds=np.zeros(4)), busy=np.asarray([5.0]))
    assert demand(stats).work == pytest.approx([0.5, 1.0, 1.5, 2.0])


def test_the_time_of_a_few_rows_is_noise() -> None:
    stats = figures_of(uniform(1, 2), [10, 9990])
    seconds = np.asarray([1.0, 9.0])  # ten rows that took as long as a thousand
    work = demand(replace(stats, loads=replace(stats.loads, seconds=seconds), busy=np.asarray([10.0]))).work
    assert work[0] < 0.15


@given(
    rows=st.lists(st.integers(0, 10_000), min_size=16, max_size=16),
    seconds=st.lists(st.floats(0, 10), min_size=16, max_size=16),
    busy=st.lists(st.floats(0.001, 100), min_size=4, max_size=4),
)
def test_the_work_of_a_site_adds_up_to_its_time(rows: list[int], seconds: list[float], busy: list[float]) -> None:
    stats = figures_of(uniform(4, 4), rows)
    stats = replace(stats, loads=replace(stats.loads, seconds=np.asarray(seconds)), busy=np.asarray(busy))
    with_rows = stats.of_sites(rows) > 0
    assert np.asarray(times(stats))[with_rows] == pytest.approx(np.asarray(busy)[with_rows])
    assert np.isfinite(demand(stats).work).all()
    assert (demand(stats).speeds > 0).all()


def test_where_a_deadline_ends_the_work_the_backlog_tells_who_is_slow() -> None:
    tight = replace(world([0.5, 1, 1, 1], even_keys(40_000)), deadline=10.0)
    stats = tight.stats()
    assert stats.busy == pytest.approx([10, 10, 10, 10], rel=0.01)
    assert times(stats) == pytest.approx([20, 10, 10, 10], rel=0.01)
    assert stats.of_sites(demand(stats).owed)[0] > 0


def test_nothing_came() -> None:
    asked = demand(figures_of(uniform(2, 4), [0] * 8))
    assert asked.work.sum() == 0
    assert asked.speeds == pytest.approx([1, 1])


def test_which_groups_a_deadline_let_a_site_reach_does_not_matter() -> None:
    stats = figures_of(uniform(2, 4), [1000] * 8)
    done = np.asarray([4000, 0, 0, 0, 500, 1500, 1000, 1000])
    loads = replace(stats.loads, done=done, seconds=done / 1000)
    asked = demand(replace(stats, loads=loads, busy=np.asarray([4.0, 4.0])))
    assert asked.work == pytest.approx([1.0] * 8, rel=0.05)
    assert asked.speeds == pytest.approx([1, 1])


def test_a_site_that_does_half_of_its_rows_in_the_same_time_has_half_the_speed() -> None:
    stats = figures_of(uniform(2, 4), [1000] * 8)
    done = np.asarray([500] * 4 + [1000] * 4)
    loads = replace(stats.loads, done=done, seconds=np.full(8, 1.0))
    asked = demand(replace(stats, loads=loads, busy=np.asarray([4.0, 4.0])))
    assert asked.speeds == pytest.approx([2 / 3, 4 / 3])
    assert stats.of_sites(asked.work) / asked.speeds == pytest.approx([8, 4])
