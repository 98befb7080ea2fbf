from __future__ import annotations

import pytest

from penstock.balance.admission import FIRST_ROWS, LEAST_ROWS, MOST_GROWTH, MOST_ROWS, Admission, FixedAdmission


def run(target: float, fixed: float, per_row: float, epochs: int = 30) -> tuple[Admission, float]:
    """The admission after some full epochs of a system with these costs, and the length of the next one."""
    admission = Admission(target)
    for _ in range(epochs):
        busy = per_row * admission.rows
        admission = admission.after(admission.rows, fixed + busy, busy)
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
    assert Admission(2.0, warm=True).after(FIRST_ROWS, 0.01, 0.001).rows == FIRST_ROWS * MOST_GROWTH


def test_a_slow_first_epoch_shrinks_nothing_and_a_fast_one_counts() -> None:
    assert Admission(2.0).after(FIRST_ROWS, 1e9, 1e9).rows == FIRST_ROWS
    assert Admission(2.0).after(FIRST_ROWS, 1.0, 0.9).rows > FIRST_ROWS


def test_an_epoch_that_was_not_full_changes_nothing() -> None:
    assert Admission(2.0, warm=True).after(10, 5.0, 5.0).rows == FIRST_ROWS


def test_a_fixed_admission_stays() -> None:
    assert FixedAdmission(7).after(7, 100.0, 1.0).rows == 7
