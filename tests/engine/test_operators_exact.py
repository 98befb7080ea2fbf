"""Queries of all operators, over several streams, however they arrive and however they are run: the batch answer."""

from __future__ import annotations

from random import Random

import pytest

from tests.support.amounts import random_cases
from tests.support.fuzz import report_of
from tests.support.trials.trial import random_trial


@pytest.mark.parametrize("case", random_cases(200))
def test_any_query_of_any_operators_gives_the_batch_answer(case: int, random: Random) -> None:
    trial = random_trial(random, most_rows=40)
    assert not (found := report_of(trial, f"case {case}", tries=100)), found
