from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.balance.intake.admission import (
    FIRST_ROWS,
    LEAST_PART,
    LEAST_ROWS,
    MOST_GROWTH,
    MOST_ROWS,
    Admission,
    FixedAdmission,
)

ROOMY = 10**9


def run(target: float, fixed: float, per_row: float, epochs: int = 30) -> tuple[Admission, float]:
    """The admission after some full epochs of a system with these costs, and the length of the next one."""
    admission = Admission(target)
    for _ in range(epochs):
        busy = per_row * admission.rows
        admission = admission.after(admission.rows, fixed + busy, busy, busy)
    return admission, fixed + per_row * admission.rows


@pytest.mark.parametrize("per_row", [1e-4, 1e-5, 1e-6])
def test_epochs_get_the_length_they_aim_at(per_row: float) -> None:
    assert run(2.0, 0.1, per_row)[1] == pytest.approx(2.0, rel=0.01)


def test_a_high_fixed_cost_makes_epochs_longer_instead_of_emptier() -> None:
    admission, seconds = run(1.0, 2.0, 1e-6)
    assert seconds == pytest.approx(6.0)
    assert admission.rows == 4_000_000


def test_there_is_a_least_and_a_most_that_an_epoch_takes_in() -> None:
    assert run(2.0, 0.1, 1e9)[0].rows == LEAST_ROWS
    assert run(1e6, 0.1, 1e-9)[0].rows == MOST_ROWS


def test_growth_is_not_sudden() -> None:
    assert Admission(2.0, warm=True).after(FIRST_ROWS, 0.01, 0.001, 0.001).rows == FIRST_ROWS * MOST_GROWTH


def test_a_slow_first_epoch_shrinks_nothing_and_a_fast_one_counts() -> None:
    assert Admission(2.0).after(FIRST_ROWS, 1e9, 1e9, 1e9).rows == FIRST_ROWS
    assert Admission(2.0).after(FIRST_ROWS, 1.0, 0.9, 0.9).rows > FIRST_ROWS


def test_an_epoch_that_was_not_full_changes_nothing() -> None:
    assert Admission(2.0, warm=True).after(10, 5.0, 5.0, 5.0).rows == FIRST_ROWS


def test_a_fixed_admission_stays() -> None:
    assert FixedAdmission(7).after(7, 100.0, 1.0, 1.0).rows == 7


@pytest.mark.parametrize(
    ("occupancy", "rows"), [(0.0, 1600), (0.5, 1600), (0.6, 1300), (0.75, 850), (0.9, 400), (1.0, 100), (7.0, 100)]
)
def test_buffers_more_than_half_full_slow_the_sources_in_proportion(occupancy: float, rows: int) -> None:
    assert FixedAdmission(1600).slowed(occupancy, ROOMY) == rows


def test_full_buffers_leave_the_least_that_an_epoch_takes_in() -> None:
    assert Admission(2.0).slowed(0.5, ROOMY) == FIRST_ROWS
    assert Admission(2.0).slowed(0.75, ROOMY) == (FIRST_ROWS + LEAST_ROWS) // 2
    assert Admission(2.0).slowed(1.0, ROOMY) == LEAST_ROWS
    assert Admission(2.0, rows=5).slowed(0.5, ROOMY) == 5
    assert FixedAdmission(3).slowed(1.0, ROOMY) == 1


fractions = st.floats(0, 3)
admissions = st.integers(1, MOST_ROWS).flatmap(lambda n: st.sampled_from([FixedAdmission(n), Admission(1.0, rows=n)]))


@given(admissions, fractions, fractions, st.integers(1, ROOMY))
def test_fuller_buffers_never_let_more_in_and_never_nothing(
    admission: Admission | FixedAdmission, one: float, other: float, room: int
) -> None:
    emptier, fuller = admission.slowed(min(one, other), room), admission.slowed(max(one, other), room)
    assert 1 <= fuller <= emptier <= admission.rows


@pytest.mark.parametrize("speed", [70, 400, 900, 5000])
def test_a_bounded_buffer_settles_below_its_capacity(speed: int) -> None:
    """Sites that work through `speed` rows an epoch, with room for 10,000, while 1000 could come."""
    pending, admission, taken = 0, FixedAdmission(1000), 0
    for _ in range(500):
        taken = admission.slowed(pending / 10_000, 10_000)
        pending = max(0, pending + taken - speed)
        assert pending <= 10_000
    assert taken == pytest.approx(min(1000, speed), rel=0.02)


def test_what_buffers_held_back_comes_again_when_they_are_drained() -> None:
    admission = FixedAdmission(1000)
    assert [admission.slowed(occupancy, ROOMY) for occupancy in (0.2, 1.0, 0.2)] == [1000, 62, 1000]


@pytest.mark.parametrize("occupancy", [0.0, 0.25, 0.5, 0.9])
def test_no_epoch_takes_in_more_than_the_buffers_have_room_for(occupancy: float) -> None:
    assert Admission(2.0).slowed(occupancy, 80_000) == max(80_000 // LEAST_PART, round(80_000 * (1 - occupancy)))
    assert FixedAdmission(1000).slowed(occupancy, 200) == max(62, round(200 * (1 - occupancy)))


def test_a_slow_site_that_is_in_nobodys_way_does_not_make_epochs_smaller() -> None:
    held = Admission(0.5, warm=True).after(FIRST_ROWS, 0.5, 0.5, 0.5)
    buffered = Admission(0.5, warm=True).after(FIRST_ROWS, 0.5, 0.5, 0.25)
    assert held.rows == pytest.approx(FIRST_ROWS, abs=1)
    assert buffered.rows == pytest.approx(2 * FIRST_ROWS, abs=1)


def test_small_buffers_are_not_flooded_by_the_least_that_an_epoch_takes_in() -> None:
    assert Admission(2.0).slowed(0.0, 4_000) == 4_000
    assert Admission(2.0).slowed(1.0, 4_000) == 250
    assert Admission(2.0).slowed(1.0, 1) == 1
    assert Admission(2.0, rows=LEAST_ROWS).slowed(1.0, ROOMY) == LEAST_ROWS // LEAST_PART
