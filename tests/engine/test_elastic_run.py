"""A query under `elastic` and a constant load, in virtual time: the number of sites settles and stays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa

import penstock as ps
from penstock.engine.driver.executor import InlineExecutor
from penstock.engine.driver.loop import Outcome
from penstock.engine.wire.job import EpochJob, LookAhead, Report, RouteTask, SiteReport, nothing_follows
from penstock.events import DirectoryChanged
from penstock.testing.ways import Way
from tests.support.clock import SimulatedClock
from tests.support.crashes import Place, Scenario, assert_exact
from tests.support.looping import looping

ROWS, EPOCHS = 400, 110


class DearerAtTwoSites(InlineExecutor):
    """An epoch takes a second. Two sites are busy for nearly all of it; three are for less than half, since rows that
    do not wait are cheaper: it looks as if two would do."""

    def __init__(self, clock: SimulatedClock) -> None:
        super().__init__(clock)
        self._simulated = clock

    def run(self, job: EpochJob, routes: Sequence[RouteTask], following: LookAhead = nothing_follows) -> list[Report]:
        self._simulated.now += 1.0
        cost = (1.9 if job.directories[0].sites <= 2 else 1.4) / ROWS
        reports = super().run(job, routes, following)
        return [_costly(one, cost) if isinstance(one, SiteReport) else one for one in reports]


def _costly(report: SiteReport, cost: float) -> SiteReport:
    told = report.statistics
    if told is not None:
        told = replace(told, load=replace(told.load, seconds=told.load.rows * cost))
    return replace(report, time=replace(report.time, seconds=report.rows_in * cost), statistics=told)


def test_an_elastic_query_settles_under_a_constant_load(place: Place, clock: SimulatedClock) -> None:
    parts = [pa.table({"ts": [epoch] * ROWS, "k": list(range(ROWS))}) for epoch in range(EPOCHS)]
    stream = ps.read.batches(parts, time="ts").group_by("k").window(ps.tumbling(10)).agg(n=ps.count())
    scenario, way = Scenario(stream), Way(sites=2)
    options = {"policy": "elastic", "most_sites": 6, "round_seconds": 2.0}
    with looping(scenario, place, way, DearerAtTwoSites(clock), clock, **options) as (loop, told):
        while loop.step() is not Outcome.FINISHED:
            pass
    scalings = [event for event in told if isinstance(event, DirectoryChanged) and event.what.startswith("scale")]
    assert 1 <= len(scalings) <= 3
    assert scalings[-1].epoch <= EPOCHS - 100
    assert_exact(scenario, place)
