"""The result of a site step: its report comes at once, and a future says when the files that it names are durable."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

import penstock as ps
from penstock.clock import SYSTEM_CLOCK
from penstock.engine.driver.executor import InlineExecutor
from penstock.engine.driver.loop import Outcome
from penstock.engine.task.level import once_durable, run_route, run_site
from penstock.engine.wire.blob import Blob
from penstock.engine.wire.job import (
    EpochJob,
    LookAhead,
    Report,
    RouteTask,
    SiteResult,
    TaskFailure,
    ToSite,
    nothing_follows,
)
from penstock.errors import PenstockError
from penstock.storage import durable as durable_files
from penstock.testing.ways import Way
from tests.support.crashes import Place, Scenario, assert_exact
from tests.support.looping import looping

ROWS = pa.table({"ts": [1, 2, 30], "k": [1, 2, 3]})

pytestmark = pytest.mark.usefixtures("sync_threads")


def scenario() -> Scenario:
    stream = ps.read.batches([ROWS], time="ts").group_by("k").window(ps.tumbling(10)).agg(n=ps.count())
    return Scenario(stream)


class OneSiteFirst(InlineExecutor):
    """Runs the site of the first epoch once more, before all others, and keeps its result."""

    def __init__(self) -> None:
        super().__init__()
        self.results: list[SiteResult] = []

    def run(self, job: EpochJob, routes: Sequence[RouteTask], following: LookAhead = nothing_follows) -> list[Report]:
        if not self.results:
            messages = [m for task in routes for m in run_route(job, task, SYSTEM_CLOCK)]
            blobs = [m.content for m in messages if isinstance(m.to, ToSite) and isinstance(m.content, Blob)]
            result = run_site(job, 0, 0, blobs, SYSTEM_CLOCK)
            assert isinstance(result, SiteResult)
            self.results.append(result)
            self.before_durable()
            result.durable.result(30)
        return super().run(job, routes, following)

    def before_durable(self) -> None: ...


def test_a_site_reports_before_its_files_are_durable(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    sync, go_on = durable_files.sync_file, threading.Event()

    def held(path: Path) -> None:
        assert go_on.wait(30)
        sync(path)

    class Looking(OneSiteFirst):
        def before_durable(self) -> None:
            (result,) = self.results
            assert result.report.staged, "the site has written no file"
            assert not result.durable.done()
            go_on.set()

    monkeypatch.setattr(durable_files, "sync_file", held)
    case, executor = scenario(), Looking()
    with looping(case, place, Way(sites=1), executor) as (loop, _):
        while loop.step() is not Outcome.FINISHED:
            pass
    assert executor.results[0].durable.done()
    assert_exact(case, place)


def test_files_that_cannot_be_made_durable_fail_their_site(place: Place) -> None:
    executor = OneSiteFirst()
    with looping(scenario(), place, Way(sites=1), executor) as (loop, _):
        loop.step()
    (result,) = executor.results
    assert once_durable(result) == result.report
    broken, lost = Future[None](), Future[None]()
    error = PenstockError("the disk is broken")
    broken.set_exception(error)
    assert once_durable(replace(result, durable=broken)) == TaskFailure(result.report.producer, error)
    lost.set_exception(OSError("input/output error"))
    with pytest.raises(OSError, match="input/output error"):
        once_durable(replace(result, durable=lost))
