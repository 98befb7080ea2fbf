"""A running query does what is asked for in its control folder, and shows how it is getting on."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
import pytest

import penstock as ps
from penstock.balance import policies
from penstock.balance.stats import Loads, RoundStats
from penstock.cli.asking import Watching, answer_to, ask, wait_for
from penstock.clock import SYSTEM_CLOCK
from penstock.control.folder import ControlFolder
from penstock.control.requests import Answer, MoveRequest, RebalanceRequest, Request, ScaleRequest
from penstock.control.status import Status
from penstock.engine.driver.executor import InlineExecutor
from penstock.engine.driver.showing import hottest
from penstock.engine.driver.steering import Steering
from penstock.events import DirectoryChanged
from penstock.state.directory import uniform
from penstock.testing.ways import Way
from tests.support.crashes import Place, Scenario
from tests.support.looping import looping

ROWS = 50_000_000  # more than a test will ever see


def endless(tmp_path: Path, **settings: object) -> ps.Run:
    """A query over rows that keep coming."""
    calls = ps.read.calls(rows=ROWS, keys=500, rate=1_000, split_rows=500, progress=ps.slack("1s"))
    query = calls.group_by("caller").window(ps.tumbling("1s")).agg(n=ps.count())
    return query.to.files(str(tmp_path / "out")).start(
        str(tmp_path / "ck"), master="inline", sites=2, groups_per_site=4, rows_per_epoch=500, **settings
    )


def until(holds: Callable[[], bool]) -> None:
    for _ in range(600):
        if holds():
            return
        time.sleep(0.05)
    raise AssertionError("it never came to that")


def answered(run: ps.Run, request: Request) -> Answer:
    """What the run says to a request."""
    folder = ControlFolder(run.checkpoint)
    try:
        return wait_for(folder, ask(folder, request), 30.0, lambda: run.running)
    finally:
        folder.close()


def sites_of(run: ps.Run) -> int:
    return run._loop.manifest.subqueries[0].directory.sites


def test_a_run_is_scaled_moved_and_evened_out_from_outside(tmp_path: Path) -> None:
    run = endless(tmp_path)
    try:
        assert answered(run, ScaleRequest(5)).why_not is None
        until(lambda: sites_of(run) == 5)
        directory = run._loop.directories[0]
        group = directory.groups[0]
        target = (directory.homes[0] + 1) % 5
        assert answered(run, MoveRequest(str(group), target, 0)).why_not is None
        until(lambda: run._loop.manifest.subqueries[0].directory.homes[0] == target)
        assert answered(run, RebalanceRequest()).detail
        refused = answered(run, MoveRequest("01010101010101", 0, 0))
        assert refused.why_not == "there is no such group"
        assert "penstock top --json" in refused.detail
        assert "1 subqueries" in (answered(run, ScaleRequest(3, 7)).why_not or "")
        told = [event.what for event in run.events if isinstance(event, DirectoryChanged)]
        assert told[:2] == ["scale to 5 sites", f"move {group} from site {directory.homes[0]} to site {target}"]
    finally:
        run.stop()


def test_who_asks_for_sites_to_be_evened_out_is_told_what_came_of_it(tmp_path: Path) -> None:
    """All groups are at one site at first, then there is nothing left to do."""
    run = endless(tmp_path, policy="static")
    try:
        for group in run._loop.directories[0].groups:
            answered(run, MoveRequest(str(group), 0, 0))
        until(lambda: set(run._loop.manifest.subqueries[0].directory.homes) == {0})
        answer = answered(run, RebalanceRequest())
        assert (answer.why_not, answer.detail[:12]) == (None, "subquery 0: ")
        assert answer.detail.endswith("changed")
        answered(run, ScaleRequest(1))
        until(lambda: sites_of(run) == 1)
        answer = answered(run, RebalanceRequest())
        nothing = "nothing to do: no change would help, the sites of subquery 0 are within 0 % of each other"
        assert (answer.why_not, answer.detail) == (None, nothing)
        assert status_of(run).decisions[-1].why in (nothing, "by hand")
    finally:
        run.stop()


def test_a_query_that_ends_first_says_so(tmp_path: Path) -> None:
    """As one that has nothing to read does."""
    with looping(evened(), Place(tmp_path), Way(sites=2), InlineExecutor()) as (loop, _):
        steering = Steering(loop, SYSTEM_CLOCK)
        folder = ControlFolder(loop.checkpoint.root)
        name = ask(folder, RebalanceRequest())
        steering.attend()
        assert answer_to(folder, name) is None
        steering.close()
        answer = answer_to(folder, name)
        folder.close()
    assert answer is not None
    assert answer.why_not == "the run ended before the next epoch"


def evened() -> Scenario:
    rows = pa.table({"ts": range(0, 50_000, 100), "k": [n % 20 for n in range(500)]})
    stream = ps.read.batches([rows], time="ts", progress=ps.slack(0))
    return Scenario(stream.group_by("k").window(ps.tumbling("1ms")).agg(n=ps.count()))


@contextmanager
def watched(run: ps.Run) -> Iterator[Callable[[], Status]]:
    """What a run shows of itself to somebody who watches it."""
    folder = ControlFolder(run.checkpoint)
    try:
        with Watching(folder) as watching:

            def looked() -> Status:
                watching.renew()
                return status_of(run)

            yield looked
    finally:
        folder.close()


def status_of(run: ps.Run) -> Status:
    until(lambda: (run.checkpoint / "control" / "status.json").exists())
    return msgspec.json.decode((run.checkpoint / "control" / "status.json").read_bytes(), type=Status)


def test_sites_tell_of_their_groups_while_somebody_watches(tmp_path: Path) -> None:
    run = endless(tmp_path, policy="static")
    try:
        until(lambda: status_of(run).epoch > 3)
        assert run._loop.stats_epoch is None
        with watched(run) as status:
            until(lambda: status().has_group_statistics)
            assert status().subqueries[0].hottest
        until(lambda: not status_of(run).has_group_statistics)
        told = run._loop.stats_epoch
        until(lambda: status_of(run).epoch > told + 20)
        assert run._loop.stats_epoch == told
    finally:
        run.stop()


def test_what_costs_sites_nothing_is_shown_to_whoever_looks(tmp_path: Path) -> None:
    run = endless(tmp_path, policy="static")
    try:
        until(lambda: status_of(run).epoch > 3)
        (unwatched,) = status_of(run).subqueries
        with watched(run) as status:
            until(lambda: status().has_group_statistics)
            (told,) = status().subqueries
        assert (unwatched.name, unwatched.hottest) == (told.name, ())
        assert [site.groups for site in unwatched.sites] == [site.groups for site in told.sites]
        for one, other in zip(unwatched.sites, told.sites, strict=True):
            assert one.rows_per_second > 0
            assert 0 < one.utilisation <= 1
            assert 0.5 < one.state_bytes / other.state_bytes < 2
    finally:
        run.stop()


def test_a_run_shows_how_it_is_getting_on(tmp_path: Path) -> None:
    run = endless(tmp_path)
    try:
        with watched(run) as status:
            until(lambda: status().has_group_statistics)
        (subquery,) = status().subqueries
        assert len(subquery.sites) == 2
        assert sum(site.groups for site in subquery.sites) == 8
        assert sum(site.rows_per_second for site in subquery.sites) > 0
        assert {group.site for group in subquery.hottest} <= {0, 1}
        assert status().epoch > 0
    finally:
        run.stop()


def loads(**stats: list[int]) -> Loads:
    """Of groups that had nothing to do and hold nothing, unless `stats` say otherwise."""
    count = len(next(iter(stats.values())))
    return replace(Loads.none(count), **{name: np.asarray(values) for name, values in stats.items()})


def test_groups_are_told_by_work_then_by_what_waits_for_it() -> None:
    """Also those to which no row came: one with pending rows, and one that only holds state."""
    told = loads(seconds=[0, 3, 0, 1], rows=[0, 9, 0, 5], pending=[0, 0, 7, 0], state_bytes=[8, 0, 0, 0])
    stats = RoundStats(uniform(2, 2), 1, 1.0, told, np.ones(2), np.ones(2), np.zeros(2))
    groups = hottest(stats)
    assert [group.group for group in groups] == ["01", "11", "10", "00"]
    assert [group.pending for group in groups] == [0, 0, 7, 0]


def test_many_groups_are_told() -> None:
    """So that `penstock move` has bits to take; but not all of ten thousand."""
    count = len(uniform(2, 1000).groups)
    stats = RoundStats(uniform(2, 1000), 1, 1.0, loads(rows=[1] * count), np.ones(2), np.ones(2), np.zeros(2))
    assert len(hottest(stats)) == 256


@pytest.mark.parametrize("policy", [policy.name for policy in policies._OWN])
def test_every_policy_can_run_a_query(policy: str, tmp_path: Path) -> None:
    calls = ps.read.calls(rows=6_000, keys=50, skew="zipf:1.5", rate=1_000, split_rows=300, progress=ps.slack("1s"))
    query = calls.group_by("caller").window(ps.tumbling("1s")).agg(n=ps.count()).to.memory()
    run = query.start(
        str(tmp_path / policy), master="inline", sites=3, most_sites=5, rows_per_epoch=300, policy=policy, round="1ms"
    )
    table = run.wait().result()
    assert sum(table.column("n").to_pylist()) == 6_000
    assert len(table.select(["caller", "window_start"]).group_by(["caller", "window_start"]).aggregate([])) == len(
        table
    )
    if policy == "static":
        assert not [event for event in run.events if isinstance(event, DirectoryChanged)]
