"""Late rows: what is closed when they come has missed them, and the late output says so; what is open counts them."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

import penstock as ps
from penstock.errors import CheckpointError, ConfigError
from penstock.testing import Way, assert_same_rows, cut
from tests.support.cases.input import Part
from tests.support.late_answer import expected, readable
from tests.support.queries.data import MICROSECOND, SECOND, random_query, random_rows


@pytest.mark.parametrize("lateness", ["row", "window"])
@pytest.mark.parametrize("case", range(20))
def test_late_rows_are_delivered_whole_and_left_out_of_the_answer(
    case: int, lateness: str, random: Random, way: Way, tmp_path: Path
) -> None:
    rows = random_rows(random)
    shuffled = rows.take(random.sample(range(rows.num_rows), rows.num_rows)) if rows.num_rows else rows
    parts, slack = cut(random, shuffled), random.choice([0, 5 * SECOND, 30 * SECOND])
    stream = ps.read.batches(parts, time="ts", progress=ps.slack(slack * MICROSECOND), one_batch_per_offer=True)
    query = random_query(random, stream)
    options = {"master": "inline", "epoch": "1ms", "lateness": lateness, **way.settings()}
    run = query.to.memory().start(str(tmp_path / "ck"), **options).wait()
    want = expected(query.node, {"batches": tuple((Part("", part),) for part in parts)}, lateness)
    assert_same_rows(readable(run.late), want.late["batches"], f"late rows, {way}")
    assert run.progress.late_rows == run.late.num_rows
    assert_same_rows(run.result(), want.rows, f"{way}\n{query.explain()}")


def test_rows_that_arrive_together_never_make_each_other_late(tmp_path: Path) -> None:
    rows = pa.table({"ts": pa.array([100 * SECOND, 0], pa.timestamp("us")), "k": [1, 1]})
    stream = ps.read.table(rows, time="ts", progress=ps.ordered())
    run = stream.window(ps.tumbling("10s")).agg(n=ps.count()).to.memory().start(master="inline").wait()
    assert run.progress.late_rows == 0
    assert sorted(run.result().column("n").to_pylist()) == [1, 1]


def batch(*seconds: int) -> pa.Table:
    return pa.table({"ts": pa.array([s * SECOND for s in seconds], pa.timestamp("us"))})


def counted(lateness: str, *parts: pa.Table, **options: Any) -> ps.Run:
    stream = ps.read.batches(parts, time="ts", **options)
    counts = stream.window(ps.tumbling("10s")).agg(n=ps.count())
    return counts.to.memory().start(master="inline", epoch="1ms", lateness=lateness).wait()


def test_a_row_below_the_punctuation_counts_in_a_window_that_is_still_open() -> None:
    run = counted("window", batch(1, 5), batch(3), batch(9))
    assert (run.late.num_rows, run.progress.late_rows) == (0, 0)
    assert run.result().column("n").to_pylist() == [4]


def test_by_rows_it_is_late_all_the_same() -> None:
    run = counted("row", batch(1, 5), batch(3), batch(9))
    assert run.late.to_pylist() == [{"ts": datetime(1970, 1, 1, 0, 0, 3)}]
    assert run.result().column("n").to_pylist() == [3]


def test_a_late_row_says_from_when_to_when_the_windows_were_that_missed_it() -> None:
    run = counted("window", batch(25), batch(3, 21))
    (late,) = run.late.to_pylist()
    borders = {"first_start": datetime(1970, 1, 1), "last_end": datetime(1970, 1, 1, 0, 0, 10)}
    assert late == {"ts": datetime(1970, 1, 1, 0, 0, 3), "late_for": [{"subquery": 0, **borders}]}
    assert run.result().column("n").to_pylist() == [2]


def test_a_column_of_the_source_may_have_the_name_of_what_late_rows_say() -> None:
    parts = [[{"ts": 25, "late_for": "a"}], [{"ts": 3, "late_for": "b"}]]
    stream = ps.read.batches(parts, time="ts")
    run = stream.window(ps.tumbling(10)).agg(n=ps.count()).to.memory().start(master="inline", epoch="1ms").wait()
    missed = [{"subquery": 0, "first_start": 0, "last_end": 10}]
    assert run.late.to_pylist() == [{"ts": 3, "late_for": "b", "late_for_2": missed}]


def test_allowed_lateness_keeps_windows_open_that_much_longer() -> None:
    parts = batch(1), batch(15), batch(2), batch(26), batch(3)
    assert [row["n"] for row in counted("window", *parts).result().to_pylist()] == [1, 1, 1]
    run = counted("window", *parts, allowed_lateness="10s")
    assert [row["n"] for row in run.result().to_pylist()] == [
        2,
        1,
        1,
    ]  # 15 s leaves the first window open, 26 s does not
    assert run.late.column("ts").cast(pa.int64()).to_pylist() == [3 * SECOND]


@pytest.mark.parametrize(
    ("lateness", "time", "message"),
    [
        ("10", pa.timestamp("us"), "has no unit"),
        (10, pa.timestamp("us"), "has no unit"),
        ("10s", pa.int64(), "has a unit"),
        (-1, pa.int64(), "cannot be below zero"),
        ("soon", pa.timestamp("us"), "not a span of time"),
    ],
)
def test_an_allowed_lateness_that_means_nothing_is_refused(lateness: Any, time: pa.DataType, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        ps.read.table(pa.table({"ts": pa.array([1], time)}), time="ts", allowed_lateness=lateness)


def test_the_rule_of_lateness_stays_for_the_life_of_a_checkpoint(tmp_path: Path) -> None:
    ready = ps.read.batches([batch(1), batch(2)], time="ts").window(ps.tumbling("10s")).agg(n=ps.count()).to.memory()
    options = {"master": "inline", "epoch": "1ms"}
    ready.start(str(tmp_path), until="1 epochs", **options).wait()
    with pytest.raises(CheckpointError, match="another query"):
        ready.start(str(tmp_path), lateness="row", **options)
    assert ready.start(str(tmp_path), lateness="window", **options).wait().progress.state == "finished"


def test_an_unknown_rule_of_lateness_is_refused() -> None:
    with pytest.raises(ConfigError, match="lateness"):
        counted("windows", batch(1))
