"""Sites are asked what their groups came to only where a controller would use it."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import penstock as ps
from penstock.config import Settings
from penstock.engine.inline import InlineExecutor
from penstock.engine.loop import Outcome
from penstock.testing.crashes import Place, Scenario, assert_exact
from penstock.testing.looping import looping
from penstock.testing.ways import Way

WAY = Way(sites=2, groups_per_site=4, rows_per_epoch=50)


def scenario() -> Scenario:
    rows = pa.table({"ts": range(0, 50_000, 100), "k": [n % 20 for n in range(500)]})
    parts = [rows.slice(start, 25) for start in range(0, 500, 25)]
    stream = ps.read.batches(parts, time="ts", progress=ps.slack(0))
    return Scenario(stream.group_by("k").window(ps.tumbling(1_000)).agg(n=ps.count()))


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
            assert bool(loop.figures) == told
        while loop.step() is not Outcome.FINISHED:
            pass
    assert_exact(case, place)


def test_who_watches_is_told_in_the_next_epoch(tmp_path: Path) -> None:
    with looping(scenario(), Place(tmp_path), WAY, InlineExecutor(), round_seconds=3600.0) as (loop, _):
        loop.step()
        assert loop.figures == ()
        loop.watched = True
        loop.step()
        assert len(loop.figures[0].loads.rows) == WAY.sites * WAY.groups_per_site
        assert not loop.watched


def test_sites_are_evened_out_unless_something_else_is_asked_for() -> None:
    assert Settings().policy == "even"
