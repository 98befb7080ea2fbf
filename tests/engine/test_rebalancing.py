"""What is said to somebody who asked for sites to be evened out."""

from __future__ import annotations

import pytest

from penstock.control.requests import Answer, RebalanceRequest
from penstock.engine.driver.steering import Asked, came_of
from penstock.events import Rebalanced


@pytest.mark.parametrize(
    ("heard", "said"),
    [
        ([], "nothing to do: this query has no sites"),
        (
            [Rebalanced(9, 1, 0, 0, 0.043)],
            "nothing to do: no change would help, the sites of subquery 1 are within 4 % of each other",
        ),
        (
            [Rebalanced(9, 0, 0, 0, 0.04), Rebalanced(9, 1, 0, 0, 0.1)],
            "nothing to do: no change would help, the sites of all subqueries are within 10 % of each other",
        ),
        ([Rebalanced(9, 0, 0, 0, 0.0), Rebalanced(9, 1, 3, 1, 0.5)], "subquery 1: 3 changed, 1 refused"),
        ([Rebalanced(9, 0, 2, 0, 0.5), Rebalanced(9, 1, 0, 1, 0.5)], "subquery 0: 2 changed; subquery 1: 1 refused"),
    ],
)
def test_what_came_of_it(heard: list[Rebalanced], said: str) -> None:
    assert came_of(heard) == said


def test_all_subqueries_are_waited_for() -> None:
    asked = Asked(RebalanceRequest(), (0, 1), 100.0)
    one = asked.after(Rebalanced(9, 0, 1, 0, 0.5))
    assert (asked.answer(101.0), one.answer(101.0)) == (None, None)
    both = one.after(Rebalanced(10, 1, 0, 0, 0.0)).after(Rebalanced(10, 7, 5, 0, 0.0))
    assert both.answer(101.0) == Answer(None, "subquery 0: 1 changed")


def test_where_the_input_rests_that_is_said() -> None:
    answer = Asked(RebalanceRequest(), (0,), 100.0).answer(110.0)
    assert answer is not None
    assert "not known yet" in answer.detail


def test_a_query_without_sites_is_answered_at_once() -> None:
    assert Asked(RebalanceRequest(), (), 100.0).answer(100.0) == Answer(None, "nothing to do: this query has no sites")
