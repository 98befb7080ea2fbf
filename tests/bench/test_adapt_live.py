"""Experiments whose rows arrive while a join runs: what arrives when, and what is made of what was seen."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.events import EpochCommitted, EpochTimed, TaskTimed
from penstock.types import time_values
from penstock_bench.adapt import elastic, epoch_length, live_run, tuning
from penstock_bench.adapt.arriving import PERIOD, STREAMS, Arrivals, Phase, feed, prepared
from penstock_bench.adapt.live_lanes import LiveLane
from penstock_bench.adapt.live_run import Question, live
from penstock_bench.adapt.live_seen import Effort, LiveSeen, Produced, delay_below, mean_delay
from penstock_bench.adapt.live_watch import LiveWatch
from penstock_bench.adapt.timeline import ChangeSeen, EpochSeen, Timeline
from penstock_bench.adapt.variants import TUNED, UNTUNED, make_known
from penstock_bench.adapt.watched_run import Option
from penstock_bench.experiments.experiment import Setting

SETTING = Setting()
STEPS = Arrivals((Phase(0.2, 1_000.0), Phase(0.3, 4_000.0)))


def test_rows_of_a_period_lie_in_it_and_follow_the_rate() -> None:
    assert STEPS.rates() == [1_000.0] * 2 + [4_000.0] * 3
    assert np.allclose(STEPS.borders(), [(0.0, 0.2), (0.2, 0.5)])
    tables = list(STEPS.tables("x"))
    assert [table.num_rows for table in tables] == [50, 50, 200, 200, 200]
    assert STEPS.rows_until(3) == 2 * (50 + 50 + 200)
    for number, table in enumerate(tables):
        times = time_values(table["ts"])
        assert np.all(np.diff(times) >= 0)
        assert {int(period) for period in times // 100_000} == {number}


def test_keys_of_the_first_stream_only_are_skewed() -> None:
    seen = Arrivals((Phase(0.1, 40_000.0),), bias=0.9)
    parts = [float(np.mean(next(seen.tables(stream))["k"].to_numpy() == 0)) for stream in STREAMS]
    assert parts == pytest.approx([0.9**17, 0.0], abs=0.02)


def test_files_are_seen_one_period_after_the_other(tmp_path: Path) -> None:
    for stream in STREAMS:
        (tmp_path / "seen" / stream).mkdir(parents=True)
    ticks = iter(np.arange(0.0, 10.0, PERIOD / 2))
    moments = feed(prepared(STEPS, tmp_path / "hidden"), tmp_path / "seen", clock=lambda: float(next(ticks)))
    assert len(moments) == 5
    assert np.diff(moments).min() >= PERIOD - 1e-9
    assert sorted(path.name for path in (tmp_path / "seen" / "y").iterdir()) == [f"{n:06d}.parquet" for n in range(5)]


def test_delays_count_from_the_arrival_of_the_newer_row(tmp_path: Path) -> None:
    times = pa.array([10, 250_000, 120_000], pa.timestamp("us")), pa.array([20, 90_000, 130_000], pa.timestamp("us"))
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table(list(times), names=["ts", "right_ts"]), path)
    published = path.stat().st_ctime
    began = published - 10.0
    found = live_run.produced(tmp_path, began, [began + 1.0, began + 2.0, began + 4.0])
    assert sorted((p.arrived, p.delay, p.results) for p in found) == [  # the first period does not count
        (pytest.approx(2.0), pytest.approx(8.0), 1),
        (pytest.approx(4.0), pytest.approx(6.0), 1),
    ]


def test_delays_weigh_by_results() -> None:
    seen = [Produced(0.0, 1.0, 98), Produced(0.0, 3.0, 1), Produced(0.0, 2.0, 1)]
    assert mean_delay(seen) == pytest.approx(1.03)
    assert delay_below(seen, 0.5) == 1.0
    assert delay_below(seen, 0.99) == 2.0
    assert delay_below(seen, 1.0) == 3.0
    assert mean_delay([]) is None
    assert delay_below([], 0.5) is None


def committed(rows_in: int, backlog: int) -> EpochCommitted:
    return EpochCommitted(1, rows_in, 5, 0, 0, 0.5, 0, None, False, backlog, 4)


def test_a_watch_counts_rows_when_they_are_worked_through_and_time_by_what_it_went_into() -> None:
    watch = LiveWatch()
    watch.observe(committed(100, 40))
    watch.observe(committed(10, 0))
    assert (watch.done, [epoch.done for epoch in watch.epochs]) == (110, [60, 50])
    site = TaskTimed("q0-s0", "site", "w", 0.0, 1.0, {"merge": 0.1, "work": 0.5, "emit": 0.2, "keep": 0.2})
    watch.observe(EpochTimed(2, 1.0, {}, (site, site, replace(site, kind="route"))))
    assert watch.efforts[0].overhead == pytest.approx(0.6)
    began = watch.epochs[1].at
    seen = watch.seen(began, (), 3.0, 0.5, True)
    assert [(epoch.at <= 0, epoch.done) for epoch in seen.timeline.epochs] == [(True, 60), (True, 50)]
    assert [one.at > 0 for one in seen.efforts] == [True]


def live_seen(epochs: list[tuple[float, int, int]], overhead: float = 1.0, equal: bool = True) -> LiveSeen:
    """Epochs as (time, rows done, sites), each with an overhead."""
    seen = tuple(EpochSeen(at, 1.0, done, 0, done, 0, sites) for at, done, sites in epochs)
    changes = (ChangeSeen(1.0, "split 0", "hot"), ChangeSeen(2.0, "move 01 from site 0 to site 1", "busy"))
    efforts = tuple(Effort(at, overhead + 2.0, 2.0) for at, _, _ in epochs)
    produced = (Produced(0.5, 0.2, 10), Produced(1.5, 0.6, 30))
    return LiveSeen(Timeline(seen, changes, 0, 0.4, equal), efforts, produced, cpu_seconds=6.0)


def test_elastic_sites_are_told_by_phase_and_their_overhead_is_compared_with_the_fixed_maximum() -> None:
    arrivals = Arrivals((Phase(1.0, 100.0), Phase(1.0, 300.0)))
    epochs = [(0.5, 60, 1), (0.9, 30, 1), (1.2, 100, 2), (1.8, 100, 4), (2.5, 110, 4)]
    seen = zip(
        elastic.lanes(arrivals), [live_seen(epochs), live_seen(epochs, 2.0), live_seen(epochs, 0.1)], strict=True
    )
    found = elastic.finding(list(seen), SETTING)
    first, second, whole = found.records[:3]
    assert (first["sites"], first["behind"], first["delay"], first["overhead"]) == (1.0, 10.0, 0.2, pytest.approx(2.0))
    assert (second["sites"], second["behind"], second["delay"]) == (3.0, 110.0, 0.6)
    assert (whole["load"], whole["seconds"], whole["overhead"]) == (200.0, 2.5, pytest.approx(5.0))
    assert [(bar.value, bar.reached) for bar in found.bars] == [(pytest.approx(0.5), True)]


def test_elastic_lanes_begin_with_the_same_groups() -> None:
    own = [lane.settings for lane in elastic.lanes(STEPS)]
    assert len({int(str(one["sites"])) * int(str(one["groups_per_site"])) for one in own}) == 1
    assert [one["policy"] for one in own] == ["elastic", "static", "static"]


def test_tuning_is_told_off_and_on_by_rate() -> None:
    lanes = [tuning.lane_of(policy, 1_000.0, 2.0) for policy in (UNTUNED, TUNED)]
    seen = [live_seen([(1.0, 1_000, 4)]), live_seen([(1.0, 2_000, 4)])]
    found = tuning.finding(list(zip(lanes, seen, strict=True)), 1.0, SETTING)
    assert [(r["tuning"], r["rate"], r["splits"], r["moves"]) for r in found.records] == [
        ("off", 1_000.0, 1, 1),
        ("on", 1_000.0, 1, 1),
    ]
    assert [r["cpu_per_million"] for r in found.records] == pytest.approx([6_000.0, 3_000.0])
    assert [r["delay"] for r in found.records] == [0.6, 0.6]


def test_overhead_of_epochs_is_that_of_a_site() -> None:
    lane = epoch_length.lane_of(0.5, 1_000.0, 2.0)
    found = epoch_length.finding([(lane, live_seen([(2.0, 10, 3), (4.0, 10, 3)], 0.6))], 0.0, SETTING)
    (record,) = found.records
    assert (record["length"], record["epochs"]) == (0.5, 2)
    assert record["overhead"] == pytest.approx(1.2 / (3 * 4.0))
    assert record["per_epoch"] == pytest.approx(0.2)


@pytest.mark.parametrize("module", [tuning, epoch_length])
def test_a_wrong_result_is_told(module: object) -> None:
    lane = LiveLane(UNTUNED, STEPS, {"sites": 2, "epoch_seconds": 0.5})
    found = module.finding([(lane, live_seen([(1.0, 10, 2)], equal=False))], 0.0, SETTING)  # type: ignore[attr-defined]
    assert not found.equal


def test_rows_arrive_while_a_join_runs_and_its_results_are_checked(tmp_path: Path) -> None:
    make_known()
    settings: dict[str, Option] = {"sites": 2, "epoch_seconds": 0.1, "policy": TUNED, "round_seconds": 0.1}
    question = Question(Arrivals((Phase(0.6, 4_000.0),)), str(tmp_path / "run"), settings, 1e-6, "inline")
    seen = live(question)
    assert seen.timeline.equal
    assert seen.done(float("inf")) == 6 * 400
    assert sum(one.results for one in seen.produced) > 0
    assert min(one.delay for one in seen.produced) > 0
    assert seen.overhead() > 0


def test_results_that_are_not_the_batch_answer_are_seen(tmp_path: Path) -> None:
    for stream in STREAMS:
        (tmp_path / "rows" / stream).mkdir(parents=True)
        pq.write_table(next(STEPS.tables("x")), tmp_path / "rows" / stream / "0.parquet")
    rows = next(STEPS.tables("x"))
    pairs = rows.append_column("right_ts", rows["ts"]).append_column("right_v", rows["v"])
    (tmp_path / "results").mkdir()
    question = Question(STEPS, str(tmp_path), {})
    pq.write_table(pairs.slice(1), tmp_path / "results" / "0.parquet")
    assert not live_run._right(question)
