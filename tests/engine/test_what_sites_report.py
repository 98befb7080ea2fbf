"""What sites tell, when they are asked to, and what policies are told of their bounds."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import penstock as ps
from penstock.balance.decisions import Change, Move, Scale
from penstock.balance.policies import policy_named
from penstock.engine.driver.adapt import BY_HAND
from penstock.engine.driver.executor import InlineExecutor
from penstock.engine.driver.loop import Outcome
from penstock.engine.driver.showing import subquery_status
from penstock.events import DirectoryChanged
from penstock.settings import Settings
from penstock.testing.ways import Way
from tests.support.crashes import Place, Scenario, assert_exact
from tests.support.looping import looping

WAY = Way(sites=2, groups_per_site=4, rows_per_epoch=50)


def scenario() -> Scenario:
    rows = pa.table({"ts": range(0, 50_000, 100), "k": [n % 20 for n in range(500)]})
    parts = [rows.slice(start, 25) for start in range(0, 500, 25)]
    stream = ps.read.batches(parts, time="ts", progress=ps.slack(0))
    return Scenario(stream.group_by("k").window(ps.tumbling("1ms")).agg(n=ps.count()))


@pytest.mark.parametrize(
    ("policy", "round_seconds", "told"), [("static", 0.0, False), ("even", 3600.0, False), ("even", 0.0, True)]
)
def test_in_the_first_half_of_a_calm_round_nobody_tells(
    policy: str, round_seconds: float, told: bool, tmp_path: Path
) -> None:
    place, case = Place(tmp_path), scenario()
    with looping(case, place, WAY, InlineExecutor(), policy=policy, round_seconds=round_seconds) as (loop, _):
        for _ in range(4):
            assert loop.step() is Outcome.WORKED
            assert bool(loop.stats) == told
        while loop.step() is not Outcome.FINISHED:
            pass
    assert_exact(case, place)


def test_who_watches_is_told_in_the_next_epoch(tmp_path: Path) -> None:
    with looping(scenario(), Place(tmp_path), WAY, InlineExecutor(), round_seconds=3600.0) as (loop, _):
        loop.step()
        assert loop.stats == ()
        loop.watched = True
        loop.step()
        assert len(loop.stats[0].loads.rows) == WAY.sites * WAY.groups_per_site
        assert not loop.watched


@pytest.mark.parametrize(("stream", "capacity"), [("join", 1_000), ("windows", 0)])
def test_only_what_can_be_pending_has_a_buffer(stream: str, capacity: int, tmp_path: Path) -> None:
    case = kept() if stream == "join" else scenario()
    with looping(case, Place(tmp_path), WAY, InlineExecutor(), buffer_rows=1_000) as (loop, _):
        loop.watched = True
        loop.step()
        assert loop.stats[0].capacity == capacity
        assert loop.capacity(0) == capacity  # which is shown also where nobody watches


@pytest.mark.parametrize(("policy", "change"), [("diffusion", Move), ("elastic", Scale)])
def test_an_aggregate_with_a_busy_site_is_helped(policy: str, change: type[Change], tmp_path: Path) -> None:
    """Nothing of it is ever pending, so its buffer would never fill; how busy its sites are tells all the same."""
    with looping(scenario(), Place(tmp_path), WAY, InlineExecutor(), buffer_rows=1_000) as (loop, _):
        loop.watched = True
        loop.step()
        (stats,) = loop.stats
    full = np.full(2, stats.seconds)
    at_work = full if change is Scale else full * [1.0, 0.1]
    (made,) = policy_named(policy).decide(replace(stats, busy=at_work, share=full, most_sites=8))
    assert isinstance(made.change, change)


def kept() -> Scenario:
    """A join that keeps all rows."""
    rows = pa.table({"ts": range(0, 50_000, 100), "k": range(500)})
    parts = [rows.slice(start, 25) for start in range(0, 500, 25)]
    left, right = (ps.read.batches(parts, time="ts", progress=ps.slack(0), name=name) for name in "ab")
    return Scenario(left.join(right, "k", within="1s"))


@pytest.mark.parametrize("state_bytes", [None, 2_000])
def test_a_policy_knows_how_much_state_a_site_may_hold(state_bytes: int | None, tmp_path: Path) -> None:
    """Everything is at one site at first."""
    settings = {"policy": "memory", "round_seconds": 0.0, "state_bytes": state_bytes}
    with looping(kept(), Place(tmp_path), WAY, InlineExecutor(), **settings) as (loop, told):
        for group in loop.directories[0].groups:
            if home := loop.directories[0].home(group):
                loop.change(0, Move(group, home, 0))
        while loop.step() is not Outcome.FINISHED:
            pass
    reasons = [event.why for event in told if isinstance(event, DirectoryChanged) and event.why != BY_HAND]
    assert any("site 0 holds" in why for why in reasons)
    assert any("and may hold 2 kB" in why for why in reasons) == (state_bytes is not None)


def test_sites_are_evened_out_unless_something_else_is_asked_for() -> None:
    assert Settings().policy == "even"


def test_who_watches_sees_what_sites_put_out_and_how_long_rows_wait(tmp_path: Path) -> None:
    with looping(kept(), Place(tmp_path), WAY, InlineExecutor()) as (loop, _):
        loop.watched = True
        loop.step()
        (stats,) = loop.stats
        shown = subquery_status(loop.query.program.subqueries[0], stats).sites
    assert sum(site.output_per_second for site in shown) * stats.seconds == pytest.approx(25)  # each row finds itself
    assert [site.delay for site in shown] == pytest.approx([stats.seconds / 2] * 2)  # nothing is pending
