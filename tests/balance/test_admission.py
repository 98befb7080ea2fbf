from __future__ import annotations

from penstock.balance.admission import FIRST_ROWS, LEAST_ROWS, MOST_GROWTH, Admission, FixedAdmission

WARM = Admission(2.0, FIRST_ROWS, warm=True)


def test_epochs_grow_towards_their_length_but_not_at_once() -> None:
    admission = Admission(2.0)
    assert admission.after(FIRST_ROWS, 0.01).rows == FIRST_ROWS * MOST_GROWTH
    assert admission.after(FIRST_ROWS, 1.0).rows == 2 * FIRST_ROWS


def test_slow_epochs_shrink_down_to_a_floor() -> None:
    assert WARM.after(FIRST_ROWS, 8.0).rows == FIRST_ROWS // 4
    assert WARM.after(FIRST_ROWS, 1e9).rows == LEAST_ROWS


def test_a_slow_first_epoch_shrinks_nothing() -> None:
    assert Admission(2.0).after(FIRST_ROWS, 1e9) == WARM


def test_an_epoch_that_was_not_full_says_nothing() -> None:
    assert Admission(2.0).after(10, 5.0) == Admission(2.0)


def test_a_fixed_admission_stays() -> None:
    assert FixedAdmission(7).after(7, 100.0).rows == 7
