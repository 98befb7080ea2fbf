"""Queries of all operators, over several streams, however they arrive and however they are run: the batch answer."""

from __future__ import annotations

import os
from random import Random

import pytest

from tests.support.fuzz import report_of
from tests.support.trials.trial import random_trial

CASES = int(os.environ.get("PENSTOCK_CASES") or 200)


@pytest.mark.parametrize("case", range(CASES))
def test_any_query_of_any_operators_gives_the_batch_answer(case: int, random: Random) -> None:
    trial = random_trial(random, most_rows=40)
    assert not (found := report_of(trial, f"case {case}", tries=100)), found
