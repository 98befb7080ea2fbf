"""`adapt-skew` and `adapt-rounds`: the rows are skewed as they say, and what is made of runs."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.balance.decisions import Measured
from penstock.balance.policies import policy_named
from penstock_bench.adapt import rounds, skew, skew_sites
from penstock_bench.adapt.lanes import SITES, Lane
from penstock_bench.adapt.skew_lanes import SkewCase, SkewTrial, trial_of
from penstock_bench.adapt.skew_run import same
from penstock_bench.adapt.timeline import ChangeSeen, EpochSeen, Timeline
from penstock_bench.adapt.variants import ROUNDS, UNTUNED, VARIANTS, make_known, steady_flux
from penstock_bench.adapt.watched_run import Option, Question, watched
from penstock_bench.check.oracle import batch_answer, session
from penstock_bench.experiments.experiment import Setting
from penstock_bench.rows.data import ensure_data
from penstock_bench.rows.narrow import KEYS
from penstock_bench.rows.skewed import ONE_IN
from penstock_bench.rows.stream import FILES
from penstock_bench.rows.streams import stream_named
from penstock_bench.workloads import WORKLOADS, workload_named
from penstock_bench.workloads.skewed import ALL, HOT

ROWS = 100_000
SETTING = Setting()


def hottest(stream: str, file: int) -> tuple[int, float]:
    """The most frequent key of a file, and its part of the rows."""
    keys = stream_named(stream).rows(ROWS, file)["k"].to_numpy()
    found, counts = np.unique(keys, return_counts=True)
    return int(found[counts.argmax()]), float(counts.max() / len(keys))


@pytest.mark.parametrize(("stream", "part"), [("bmodel", 0.7**17), ("pareto", 0.8**17), ("zipf", 0.383)])
def test_another_key_is_the_hottest_in_every_file(stream: str, part: float) -> None:
    seen = [hottest(stream, file) for file in range(FILES)]
    assert [key // (KEYS // FILES) for key, _ in seen] == list(range(FILES))
    assert np.mean([found for _, found in seen]) == pytest.approx(part, rel=0.25)


def test_the_hot_keys_of_one_stream_stay_and_its_partner_has_few_rows() -> None:
    assert {hottest("hot", file)[0] for file in range(FILES)} == {0}
    assert stream_named("few").rows(ROWS, 0).num_rows == ROWS // FILES // ONE_IN


def test_skewed_workloads_are_known_but_not_part_of_a_benchmark_of_all() -> None:
    assert not {workload.name for workload in ALL} & set(WORKLOADS)
    assert all(workload_named(workload.name) == workload for workload in ALL)


@pytest.mark.parametrize("name", ["join-zipf", "join-hot", "tumble-pareto"])
def test_a_skewed_workload_is_the_batch_answer_and_wrong_rows_are_seen(name: str, tmp_path: Path) -> None:
    workload = workload_named(name)
    data = ensure_data(tmp_path / "data", 20_000, workload.streams)
    with session() as connection:
        answer = batch_answer(connection, workload, data).to_arrow_table()
    (tmp_path / "rows").mkdir()
    for rows, right in ((answer, True), (answer.slice(1), False), (pa.concat_tables([answer, answer[:1]]), False)):
        pq.write_table(rows, tmp_path / "rows" / "x.parquet")
        assert same(tmp_path / "rows", workload, data) is right


def test_a_run_is_watched_and_checked_by_digests(tmp_path: Path) -> None:
    data = ensure_data(tmp_path / "data", 20_000, ("zipf", "b"))
    settings: dict[str, Option] = {"rows_per_epoch": 10_000, "policy": "even", "round_seconds": 0.0}
    question = Question("join-zipf", str(data), str(tmp_path / "run"), settings, master="inline")
    seen = watched(question, right=same)
    assert seen.equal
    trial = trial_of(SkewCase("join", "zipf", "even", 20_000), seen)
    assert (trial.rows_in, trial.seconds) == (30_000, seen.seconds)  # the first epoch does not count
    assert not watched(question, right=lambda *_: False).equal


def trial(kind: str, run: str, seconds: float, rows: int = 100, query: str = "join") -> SkewTrial:
    return SkewTrial(query, kind, run, rows, rows_in=2 * rows, rows_out=rows, seconds=seconds, changes=3, equal=True)


def test_skew_is_compared_with_the_better_uniform_run_of_the_same_system_and_rows() -> None:
    found = skew.finding(
        [
            trial("uniform", "static", 1.0),
            trial("uniform", "even", 2.0),
            trial("zipf", "static", 4.0),
            trial("zipf", "even", 1.25),
            trial("zipf", "even", 1.3),
            trial("zipf", "even", 9.0),
            trial("uniform", "even", 0.1, rows=10),
            trial("zipf", "even", 0.1, rows=10),
            trial("uniform", "spark", 30.0, rows=10),
            trial("zipf", "spark", 60.0, rows=10),
            trial("uniform", "static", 1.0, query="tumble"),
            trial("zipf", "even", 2.0, query="tumble"),
        ],
        SETTING,
    )
    of_uniform = {(r["query"], r["keys"], r["run"], r["rows"]): r["of_uniform"] for r in found.records}
    assert of_uniform["join", "zipf", "even", 100] == pytest.approx(1 / 1.3)
    assert of_uniform["join", "zipf", "static", 100] == pytest.approx(0.25)
    assert of_uniform["join", "uniform", "even", 100] == pytest.approx(0.5)
    assert of_uniform["join", "zipf", "even", 10] == pytest.approx(1.0)
    assert of_uniform["join", "zipf", "spark", 10] == pytest.approx(0.5)
    assert [bar.value for bar in found.bars] == pytest.approx([1 / 1.3, 0.5])
    assert [bar.reached for bar in found.bars] == [True, False]
    assert found.equal


def test_one_wrong_result_spoils_the_finding() -> None:
    seen = [trial("uniform", "even", 1.0), replace(trial("zipf", "even", 1.0), equal=False)]
    assert not skew.finding(seen, SETTING).equal


def timeline(seconds: float, moves: int = 0, equal: bool = True) -> Timeline:
    """1,000 rows in one epoch."""
    epochs = (EpochSeen(seconds, seconds, 1_000, 10, 1_000, 0, 8),)
    return Timeline(epochs, (ChangeSeen(0.5, "move 01", "why"),) * moves, 2, 0.3, equal)


def test_tuned_rounds_are_compared_with_the_best_length() -> None:
    lanes = rounds.lanes_with(0, (0.1, 1.0))
    assert [lane.policy for lane in lanes] == ["static", "flux-0.1", "flux-1", "flux"]
    seen = [timeline(10.0), timeline(20.0, moves=7), timeline(8.0), timeline(8.5)]
    found = rounds.finding(list(zip(lanes, seen, strict=True)), SETTING)
    assert [r["of_static"] for r in found.records] == pytest.approx([1.0, 0.5, 1.25, 10 / 8.5])
    assert [r["round_seconds"] for r in found.records] == [None, 0.1, 1.0, None]
    assert found.records[1]["moves"] == 7
    assert [r["of_best"] for r in found.records] == pytest.approx([0.8, 0.4, 1.0, 8 / 8.5])


def test_slowed_and_unslowed_runs_have_a_static_run_and_a_best_length_each() -> None:
    lanes = [lane for slow in (0, 2) for lane in rounds.lanes_with(slow, (1.0,))]
    seen = [timeline(seconds) for seconds in (10.0, 5.0, 5.0, 20.0, 10.0, 40.0)]
    found = rounds.finding(list(zip(lanes, seen, strict=True)), SETTING)
    assert [r["of_static"] for r in found.records] == pytest.approx([1.0, 2.0, 2.0, 1.0, 2.0, 0.5])
    assert [r["of_best"] for r in found.records] == pytest.approx([0.5, 1.0, 1.0, 0.5, 1.0, 0.25])


def test_the_site_of_the_hottest_key_is_the_first_to_be_slowed() -> None:
    order = rounds.hottest_first()
    assert sorted(order) == list(range(SITES))
    (slowed, *_) = rounds.lanes_with(2, ())[0].slowed
    assert slowed.site == order[0]


def test_rounds_of_one_length_stay_as_they_are() -> None:
    for seconds in ROUNDS:
        after = partial(steady_flux(seconds).next_round, seconds)
        poor = Measured(predicted=0.5, measured=-0.5)
        assert {after(True, None), after(False, None), after(True, poor), after(False, poor)} == {seconds}


def test_variants_of_policies_are_known_once_asked_for() -> None:
    make_known()
    make_known()
    assert all(policy_named(policy.name) is policy for policy in VARIANTS)


def test_a_lane_may_have_settings_of_its_own() -> None:
    lane = Lane(UNTUNED, workload=HOT.name, more={"item_rows": 7})
    assert (lane.settings["item_rows"], lane.settings["sites"], lane.settings["policy"]) == (7, SITES, UNTUNED)


def test_the_rate_on_eight_sites_is_told_of_the_better_uniform_run() -> None:
    lanes = [skew_sites.lane_of(kind, policy) for kind in ("uniform", "zipf") for policy in ("static", "even")]
    seen = [timeline(10.0), timeline(12.5), timeline(40.0), timeline(20.0, moves=3)]
    found = skew_sites.finding(list(zip(lanes, seen, strict=True)), SETTING)
    assert [r["of_uniform"] for r in found.records] == pytest.approx([1.0, 0.8, 0.25, 0.5])
    assert found.records[0]["rate"] == pytest.approx(101.0)  # rows in and rows out
    assert [r["keys"] for r in found.records] == ["uniform", "uniform", "zipf", "zipf"]
    assert [r["moves"] for r in found.records] == [0, 0, 0, 3]
