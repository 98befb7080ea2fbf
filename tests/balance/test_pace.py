from __future__ import annotations

import pytest

from penstock.balance.intake.pace import LONGEST, SHORTEST, Pace


@pytest.mark.parametrize("worked", [False, True])
def test_a_fixed_pace_counts_from_the_beginning_of_an_epoch(worked: bool) -> None:
    assert Pace(2.0).pause(worked, 0.5) == 1.5
    assert Pace(2.0).pause(worked, 3.0) == 0.0


def test_small_epochs_are_followed_by_small_pauses() -> None:
    assert Pace().pause(True, 0.05) == pytest.approx(0.15)
    assert Pace().pause(True, 0.0) == SHORTEST
    assert Pace().pause(True, 60.0) == LONGEST


def test_looking_for_work_takes_a_small_part_of_the_time() -> None:
    assert Pace().pause(False, 0.01) == pytest.approx(0.2)
    assert Pace().pause(False, 0.0001) == SHORTEST
    assert Pace().pause(False, 1.0) == LONGEST
