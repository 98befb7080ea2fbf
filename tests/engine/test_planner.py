"""The planner of epochs, on values alone: no checkpoint, no executor, no sources."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import penstock as ps
from penstock.connectors.source import Offer
from penstock.engine.driver.grids import GriddedProgram
from penstock.engine.driver.intake import Intake
from penstock.engine.driver.move_state import rehomed
from penstock.engine.driver.planner import EpochPlanner
from penstock.engine.driver.recovery import first_manifest
from penstock.engine.wire.job import EpochJob, RouteTask, SourceProgress
from penstock.plan.compile.subqueries import Query, compile_query
from penstock.progress.mark import BEGIN, Mark, at
from penstock.settings import Settings
from penstock.state.directory import Directory
from penstock.state.model import Manifest

ROWS = pa.table({"ts": [1, 2, 3], "k": [1, 2, 3]})
NOWHERE = Path("/nowhere")


def query() -> Query:
    stream = ps.read.table(ROWS, time="ts").group_by("k").window(ps.tumbling(10)).agg(n=ps.count())
    return compile_query(stream.to.files("/nowhere/out").sink)


QUERY = query()


def planner(**settings: Any) -> EpochPlanner:
    return EpochPlanner(GriddedProgram(QUERY.program), Settings(**settings), NOWHERE, {}, ("late",))


def manifest(sites: int = 2) -> Manifest:
    """That of a checkpoint whose source is at {"row": 3}."""
    first = first_manifest(QUERY, Settings(sites=sites), {})
    return replace(first, epoch=7, sources=(replace(first.sources[0], progress={"row": 3}),))


def intake(before: Manifest, offer: Offer, directory: Directory | None = None) -> Intake:
    routes = tuple(RouteTask(n, 0, one, BEGIN) for n, one in enumerate(offer.splits))
    directories = tuple(state.directory for state in before.subqueries) if directory is None else (directory,)
    return Intake((offer,), routes, directories, (), (frozenset(),), 0.0, 0, 1)


NOTHING_NEW = Offer((), {"row": 3}, False)


def moved(before: Manifest) -> Directory:
    directory = before.subqueries[0].directory
    return directory.moved(directory.groups[0], 1 - directory.homes[0])


def test_an_epoch_that_would_do_nothing_is_not_run() -> None:
    before = manifest()
    assert not planner().worth_running(before, intake(before, NOTHING_NEW), [BEGIN])


@pytest.mark.parametrize(
    ("offer", "floor"),
    [
        (replace(NOTHING_NEW, progress={"row": 4}), BEGIN),
        (replace(NOTHING_NEW, ended=True), BEGIN),
        (NOTHING_NEW, at(5)),
        (replace(NOTHING_NEW, splits=("a split",)), BEGIN),  # type: ignore[arg-type]
    ],
    ids=["progress without rows", "the end of a source", "a floor that has risen", "rows"],
)
def test_an_epoch_that_would_do_something_is_run(offer: Offer, floor: Mark) -> None:
    before = manifest()
    assert planner().worth_running(before, intake(before, offer), [floor])


def test_a_changed_directory_is_worth_an_epoch_without_input() -> None:
    before = manifest()
    assert planner().worth_running(before, intake(before, NOTHING_NEW, moved(before)), [BEGIN])


def test_the_same_values_give_the_same_job() -> None:
    before, plan = manifest(), planner()
    given = intake(before, NOTHING_NEW)
    assert plan.job(before, given, [at(5)]) == plan.job(before, given, [at(5)])
    assert plan.job(before, given, [at(5)]).program is plan.job(before, given, [at(5)]).program


def test_a_job_continues_where_the_manifest_ends() -> None:
    before = manifest()
    offer = Offer((), {"row": 9}, True, finished=("memory",))
    job = planner().job(before, intake(before, offer), [at(5)])
    assert job.epoch == 8
    assert job.sources == (SourceProgress({}, True, ("memory",), at(5), 0),)
    assert job.sites == tuple(state.sites for state in before.subqueries)


def test_state_is_planned_under_the_new_directory() -> None:
    before = manifest()
    directory = moved(before)
    job = planner().job(before, intake(before, NOTHING_NEW, directory), [BEGIN])
    assert job.directories == (directory,)
    assert job.sites == (rehomed(before.subqueries[0], directory).sites,)
    assert job.sites != (before.subqueries[0].sites,)


def test_limits_follow_from_the_settings_and_the_idle_time() -> None:
    before = manifest()
    plan = planner(items=3, item_rows=100, deadline_seconds=0.5, buffer_rows=1_000, on_bad_row="divert")
    job = plan.job(before, intake(before, NOTHING_NEW), [BEGIN], 0.25, True, (frozenset({4}),))
    limits = job.limits
    assert (limits.items, limits.item_rows, limits.seconds, limits.buffer_rows) == (3, 100, 0.5, 1_000)
    assert (limits.idle_seconds, job.collect_statistics, job.reported_keys) == (0.25, True, (frozenset({4}),))
    assert job.divert_bad_rows


def test_an_epoch_is_read_ahead_with_its_own_splits_and_directories_and_the_same_program() -> None:
    before, plan = manifest(), planner()
    job: EpochJob = plan.job(before, intake(before, NOTHING_NEW), [BEGIN])
    directory = moved(before)
    two = replace(NOTHING_NEW, splits=("one", "two"))  # type: ignore[arg-type]
    ahead = plan.ahead(job, intake(before, two, directory))
    assert (ahead.epoch, ahead.route_inputs, ahead.directories) == (9, (0, 0), (directory,))
    assert ahead.program is job.program
