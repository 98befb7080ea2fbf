"""What a worker is sent of the state: that of its own sites. Measured in bytes; no Spark is needed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa
import pytest
from pyspark import cloudpickle
from pyspark.serializers import CPickleSerializer

import penstock as ps
from penstock.engine.driver.executor import InlineExecutor
from penstock.engine.driver.loop import Outcome
from penstock.engine.wire.job import EpochJob, LookAhead, Report, RouteTask, ToSite, nothing_follows
from penstock.spark.workers.scheduler import requests_to_start
from penstock.spark.workers.worker import StartEpoch
from penstock.state.model import SiteState
from penstock.testing.ways import Way
from tests.support.crashes import Place, Scenario
from tests.support.looping import looping

SITES, WORKERS = 8, 4
SLICES = 200  # of each site, so that state is most of a job


class Keeping(InlineExecutor):
    """Keeps the jobs that it runs."""

    def __init__(self) -> None:
        super().__init__()
        self.jobs: list[EpochJob] = []

    def run(self, job: EpochJob, routes: Sequence[RouteTask], following: LookAhead = nothing_follows) -> list[Report]:
        self.jobs.append(job)
        return super().run(job, routes, following)


@pytest.fixture
def job(place: Place) -> EpochJob:
    """A job of two subqueries whose sites have much state."""
    parts = [pa.table({"ts": [n] * 100, "k": range(100)}) for n in range(3)]
    counted = ps.read.batches(parts, time="ts").group_by("k").window(ps.tumbling(10)).agg(n=ps.count())
    stream = counted.group_by("n").window(ps.tumbling(20)).agg(m=ps.count())
    executor = Keeping()
    with looping(Scenario(stream), place, Way(sites=SITES), executor) as (loop, _):
        while loop.step() is not Outcome.FINISHED:
            pass
    last = max(executor.jobs, key=lambda job: len(job.runs_in_use))
    some = next(state for state in last.sites[0] if state is not None and state.slices)
    sites = tuple(tuple(_grown(some, n, site) for site in range(SITES)) for n in range(len(last.sites)))
    return replace(last, sites=sites)


def _grown(some: SiteState, subquery: int, site: int) -> SiteState:
    """The state of a site with many runs of its own."""
    (piece, *_) = some.slices
    runs = [replace(piece.run, name=f"run-{subquery}-{site}-{n}") for n in range(SLICES)]
    return replace(some, slices=tuple(replace(piece, run=run) for run in runs))


def sent(job: EpochJob) -> list[bytes]:
    return requests_to_start(StartEpoch("context", job, None), WORKERS)


def owned(request: bytes) -> set[ToSite]:
    """The sites whose state is in a request."""
    start: StartEpoch = CPickleSerializer().loads(request)
    found = enumerate(start.job.sites)
    return {ToSite(n, site) for n, sites in found for site, state in enumerate(sites) if state is not None}


def test_a_worker_gets_the_state_of_its_own_sites(job: EpochJob) -> None:
    every = [owned(request) for request in sent(job)]
    assert every == [
        {ToSite(subquery, site) for subquery in (0, 1) for site in range(worker, SITES, WORKERS)}
        for worker in range(WORKERS)
    ]


def test_all_workers_together_get_about_the_bytes_of_one_whole_job(job: EpochJob) -> None:
    whole, without = (len(cloudpickle.dumps(StartEpoch("context", one, None))) for one in (job, job.for_routing()))
    state = whole - without
    assert state > without, "there is too little state for this test to say something"
    for request in sent(job):
        assert len(request) - without < 1.2 * state / WORKERS


@pytest.mark.parametrize("cache", ["", "/cache"])
def test_the_names_of_other_runs_travel_only_to_workers_that_share_a_cache(job: EpochJob, cache: str) -> None:
    first: StartEpoch = CPickleSerializer().loads(sent(replace(job, cache=cache))[0])
    mine = job.for_sites(lambda to: to.site % WORKERS == 0, with_other_runs=False).runs_in_use
    assert mine < job.runs_in_use
    assert first.job.runs_in_use == (job.runs_in_use if cache else mine)
