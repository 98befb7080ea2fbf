"""Sources that may not run ahead of each other, and buffers that fill: the answer is the same, and nothing stops."""

from __future__ import annotations

from random import Random

import pyarrow as pa
import pytest

import penstock as ps
from penstock.engine.driver.executor import InlineExecutor
from penstock.engine.driver.loop import Outcome
from penstock.testing.ways import Way, random_way
from tests.support.amounts import random_cases
from tests.support.clock import SimulatedClock
from tests.support.crashes import Place, Scenario, assert_exact, operator_scenario
from tests.support.looping import looping, step_to_end
from tests.support.queries.data import SECOND
from tests.support.queries.operators import operator_queries

QUERIES = operator_queries(SECOND)


@pytest.mark.parametrize("case", random_cases(40))
def test_any_lead_and_any_buffer_give_the_batch_answer(case: int, random: Random, place: Place) -> None:
    name = random.choice(sorted(QUERIES))
    settings = {"max_lead": random.choice([0, SECOND, 5 * SECOND]), "buffer_rows": random.choice([None, 1, 10])}
    scenario, way = operator_scenario(random, QUERIES[name], **settings), random_way(random)
    step_to_end(scenario, place, way, InlineExecutor())
    assert_exact(scenario, place, f"{name}, {settings}, {way}\n{scenario.stream.explain()}")


def _rows(times: range) -> list[pa.Table]:
    """One row per batch."""
    return [pa.table({"ts": pa.array([at * SECOND], pa.timestamp("us")), "k": [1]}) for at in times]


def _joined() -> ps.Stream:
    """A join of a source that has come far after few batches and of one that comes on slowly."""
    fast = ps.read.batches(_rows(range(0, 1000, 100)), time="ts", progress=ps.slack(0), name="fast")
    slow = ps.read.batches(_rows(range(0, 30)), time="ts", progress=ps.slack(0), name="slow")
    return fast.join(slow, on="k", within="5s")


def test_a_source_that_leads_waits_for_the_other(place: Place) -> None:
    scenario, leads = Scenario(_joined(), {"max_lead": 50 * SECOND}), []
    with looping(scenario, place, Way(rows_per_epoch=2), InlineExecutor()) as (loop, _):
        while loop.step() is not Outcome.FINISHED:
            fast, slow = (state.floor.at for state in loop.manifest.sources)
            if not loop.manifest.sources[1].ended:
                leads.append(fast - slow)
    assert max(leads[1:]) <= 150 * SECOND, "one batch of 100 s beyond the bound, and no more"
    assert_exact(scenario, place)


@pytest.mark.parametrize(("max_lead", "ahead"), [(10, 20), (30, 0), (60, 0)])
def test_what_a_source_allows_to_be_late_counts_in_its_lead(max_lead: int, ahead: int, place: Place) -> None:
    """One that allows 30 s more is read ahead by 30 s less the lead, to which its mark may be behind the other's."""
    patient, strict = (
        ps.read.batches(_rows(range(100)), time="ts", progress=ps.slack(0), name=name, allowed_lateness=allowed)
        for name, allowed in (("patient", "30s"), ("strict", None))
    )
    scenario = Scenario(patient.join(strict, on="k", within="5s"), {"max_lead": max_lead * SECOND})
    with looping(scenario, place, Way(rows_per_epoch=2), InlineExecutor()) as (loop, _):
        for _ in range(40):
            loop.step()
        times = [state.floor.at // SECOND for state in loop.manifest.sources]
        assert abs(times[0] + 30 - times[1] - ahead) <= 2, "give or take the batches of an epoch"
        while loop.step() is not Outcome.FINISHED:
            pass
    assert_exact(scenario, place)


def test_rows_that_came_while_their_source_was_held_back_are_not_late(place: Place, clock: SimulatedClock) -> None:
    """A substream shows no rows for long, but it is not idle: its source was not asked."""
    batches = _rows(range(100, 101)) + _rows(range(100, 130, 10)) + _rows(range(105, 106))
    two = ps.read.batches(
        batches, time="ts", progress=ps.slack(0), substreams=("x", "y", "y", "y", "x"), idle="60s", name="two"
    )
    slow = ps.read.batches(_rows(range(0, 100)), time="ts", progress=ps.slack(0), name="slow")
    scenario = Scenario(two.join(slow, on="k", within="5s"), {"max_lead": SECOND})
    with looping(scenario, place, Way(rows_per_epoch=2), InlineExecutor(), clock) as (loop, _):
        while loop.step() is not Outcome.FINISHED:
            clock.now += 10.0
    assert loop.manifest.totals.late_rows == 0
    assert loop.manifest.totals.rows_in == 105
