"""How many rows an epoch takes in when the disk space of the checkpoint runs out."""

from __future__ import annotations

import pytest

from penstock.balance.intake.disk import EPOCHS_WITHOUT_ROWS, PLENTY, DiskBudget

MB = 1_000_000


def test_below_eighty_percent_of_the_limit_all_rows_are_taken_in() -> None:
    budget = DiskBudget(limit=100 * MB, used=79 * MB, per_row=10)
    assert budget.admitted(100_000) == 100_000


def test_above_it_fewer_and_fewer_and_at_the_limit_one() -> None:
    admitted = [DiskBudget(limit=100 * MB, used=used * MB, per_row=10).admitted(100_000) for used in range(79, 102)]
    assert admitted[:2] == [100_000, 100_000]
    assert admitted[1:22] == sorted(set(admitted[1:22]), reverse=True)
    assert admitted[11] == 50_000
    assert admitted[21:] == [1, 1]


@pytest.mark.parametrize("budget", [DiskBudget(limit=10_000, used=2_000), DiskBudget(used=2_000, free=8_000)])
def test_an_epoch_writes_at_most_half_of_what_is_left(budget: DiskBudget) -> None:
    known = budget.written(1_000, asked=10, given=10)
    assert known.admitted(1_000) == 40
    assert known.admitted(1_000, on_the_way=40) == 20


def test_a_large_disk_is_no_reason_to_take_in_less() -> None:
    assert DiskBudget(used=2_000, free=PLENTY).written(1_000, 10, 10).admitted(10**9) == 10**9
    assert DiskBudget(used=50 * MB, free=2 * MB, per_row=1).admitted(MB) == MB


def test_an_epoch_with_little_input_does_not_tell_what_a_full_one_writes() -> None:
    budget = DiskBudget(per_row=100)
    assert budget.written(5_000, asked=1_000, given=3).per_row == 100
    assert budget.written(5_000, asked=1_000, given=500).per_row == 10
    assert budget.written(5_000, asked=10, given=500).per_row == 500


def test_back_pressure_ends_with_more_space_than_it_begins_with() -> None:
    budget = DiskBudget(limit=100 * MB)
    pressed = []
    for used in (79, 81, 79, 76, 74, 79):
        budget = budget.committed(used * MB, PLENTY, rows=1)
        pressed.append(budget.pressed)
    assert pressed == [False, True, True, True, False, False]


def _refused(budget: DiskBudget, asked: int, given: int | None = None) -> DiskBudget:
    fewer = budget.refused(asked, asked if given is None else given)
    assert fewer is not None
    return fewer


def test_an_epoch_that_does_not_fit_is_planned_with_fewer_rows_and_at_last_with_none() -> None:
    budget, asked = DiskBudget(limit=1_000, used=500), [400]
    while asked[-1]:
        budget = _refused(budget, asked[-1])
        asked.append(budget.admitted(400))
    assert asked == [400, 50, 6, 1, 0]
    assert _refused(DiskBudget(limit=1_000), 50, given=400).holds_all


def test_an_epoch_that_fits_ends_the_bound_on_rows() -> None:
    budget = _refused(DiskBudget(limit=1_000), 80).committed(100, PLENTY, 80)
    assert budget.most_rows is None


def test_after_epochs_without_rows_that_free_nothing_the_query_cannot_go_on() -> None:
    budget = _refused(DiskBudget(limit=1_000, used=900), 1)
    for _ in range(EPOCHS_WITHOUT_ROWS):
        assert budget.holds_all
        budget = budget.committed(900, PLENTY, 80)
    assert budget.admitted(80) == 1
    assert budget.refused(1, 1) is None
    assert budget.again().admitted(80) == 1
    assert budget.again().refused(1, 1) is None


def test_a_row_is_tried_again_as_soon_as_space_was_freed() -> None:
    budget = _refused(DiskBudget(limit=1_000, used=900), 1).committed(890, PLENTY, 80)
    assert budget.admitted(80) == 1
    assert _refused(budget, 1).holds_all


def test_an_epoch_without_rows_that_does_not_fit_ends_the_run() -> None:
    assert _refused(DiskBudget(limit=1_000, used=900), 1).refused(0, 0) is None


def test_runs_are_merged_as_far_as_both_copies_fit() -> None:
    assert DiskBudget(limit=1_000, used=300).merge_bytes is None
    assert DiskBudget(limit=1_000, used=600).merge_bytes == 200
    assert DiskBudget(limit=1_000, used=600, most_rows=0).merge_bytes == 400
    assert DiskBudget(used=600, free=100).merge_bytes == 50
    assert DiskBudget(used=600).merge_bytes is None
