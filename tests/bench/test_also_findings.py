"""What experiments make of what was measured: medians, ratios, bars, tables, JSON."""

from __future__ import annotations

import json
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from penstock.errors import ConfigError, PenstockError
from penstock_bench.cli import experiments as bench_also
from penstock_bench.experiments import adapter, epoch_cost, expiry, join_memory, latency, slide_cost, wide
from penstock_bench.experiments.by_name import EXPERIMENTS, experiment_names
from penstock_bench.experiments.epoch_cost_run import Done
from penstock_bench.experiments.epoch_script import Sizes
from penstock_bench.experiments.experiment import Bar, Column, Experiment, Finding, Setting
from penstock_bench.experiments.expiry_run import Answer as ExpiryAnswer
from penstock_bench.experiments.join_memory_run import Answer as JoinAnswer
from penstock_bench.experiments.latency_run import Point
from penstock_bench.experiments.process_memory import Memory
from penstock_bench.experiments.report import as_json, as_tables
from penstock_bench.experiments.slide_cost_run import Case, Trial
from penstock_bench.run.measurement import Measurement
from penstock_bench.run.measurement import Trial as SystemTrial
from penstock_bench.system import Limits
from penstock_bench.workloads import WORKLOADS

SECONDS = {
    "bare": [0.1, 0.5, 0.1, 0.1],
    "rows": [0.14, 0.13, 9.0],
    "closing": [0.13, 0.13, 0.13],
    "few": [0.1],
    "closing-many": [0.2],
}
EPOCHS = epoch_cost.Answer(SECONDS, Done(state_rows=2_000))
SIZES = Sizes(state=2_000, rows=100, few=10)


def verdicts(found: Finding) -> list[Any]:
    return [(bar.value, bar.reached) for bar in found.bars]


def test_a_bar_holds_up_to_its_bound() -> None:
    assert Bar("x", 1.5, "at most", 1.5).reached
    assert not Bar("x", 1.51, "at most", 1.5).reached
    assert Bar("x", 3.0, "at least", 3.0).reached
    assert not Bar("x", 2.99, "at least", 3.0).reached


def test_an_epoch_is_compared_with_the_median_job_of_nothing() -> None:
    slow = replace(EPOCHS, seconds=SECONDS | {"rows": [5.0], "closing": [5.0]})
    found = epoch_cost.finding({"direct": EPOCHS, "spark": slow}, SIZES)
    assert verdicts(found) == [(pytest.approx(1.4), True), (pytest.approx(1.3), False)]
    assert [one["count"] for one in found.records] == [4, 3, 3, 1, 1, 4, 1, 1, 1, 1]
    assert found.records[1]["what"] == "an epoch of 100 rows"
    assert found.records[6]["ratio"] == pytest.approx(50)
    assert found.equal
    assert not found.holds


@pytest.mark.parametrize("wrong", [{"late_rows": 1}, {"state_rows": 1_999}, {"equal": False}])
def test_epochs_with_rows_missing_are_not_equal(wrong: dict[str, int]) -> None:
    end = replace(EPOCHS.end, **wrong)  # type: ignore[arg-type]
    assert not epoch_cost.finding({"direct": EPOCHS, "spark": replace(EPOCHS, end=end)}, SIZES).equal


def test_a_slide_is_compared_with_the_tumbling_window_of_as_many_keys() -> None:
    cases = (Case(120, 120, 100), Case(120, 1, 100), Case(120, 120, 5000), Case(120, 1, 5000))
    seconds = {0: (1.0, 2.0, 9.0), 1: (2.2, 2.4, 2.5), 2: (4.0, 4.0, 4.0), 3: (40.0, 40.0, 40.0)}
    trials = [Trial(case, seconds[n][turn], 10, 20, 5, True) for turn in range(3) for n, case in enumerate(cases)]
    found = slide_cost.finding(trials, cases)
    assert [one["ratio"] for one in found.records] == pytest.approx([1.0, 1.2, 1.0, 10.0])
    assert [bar.value for bar in found.bars] == pytest.approx([1.2])
    assert not slide_cost.finding([replace(trials[0], equal=False), *trials[1:]], cases).equal


def test_expiry_is_judged_at_the_largest_state() -> None:
    small, large = ExpiryAnswer(110, 3, 0.009, 0.1, 0), ExpiryAnswer(1_010, 8, 0.001, 0.2, 0)
    found = expiry.finding([[small] * 3, [replace(large, expiry=0.007), large, large]], (100, 1_000))
    assert verdicts(found) == [(pytest.approx(1.0), True)]
    assert found.holds
    assert not expiry.finding([[small], [replace(large, rows_out=1)]], (100, 1_000)).equal
    assert not expiry.finding([[small], [replace(large, state_rows=999)]], (100, 1_000)).equal


def _join_answer(alive: int, equal: bool = True) -> JoinAnswer:
    return JoinAnswer(Memory(heap=alive - 1_000, outside=1_000, processes=2 * alive, disk=7 * alive), 5, equal)


def test_join_memory_is_the_slope_between_two_sizes() -> None:
    sizes = (1_000_000, 3_000_000)
    bytes_at = {"penstock": (900_000_000, 980_000_000), "spark": (600_000_000, 1_400_000_000)}
    answers = {
        (system, size): [_join_answer(bytes_at[system][n]), _join_answer(bytes_at[system][n]), _join_answer(5000)]
        for system in bytes_at
        for n, size in enumerate(sizes)
    }
    found = join_memory.finding(answers, sizes)
    assert [one["alive_per_million"] for one in found.records] == [40.0, 400.0]
    assert [one["disk_per_million"] for one in found.records] == [280.0, 2800.0]
    assert verdicts(found) == [(pytest.approx(0.1), True)]
    assert found.holds
    answers["spark", sizes[0]][1] = _join_answer(600_000_000, equal=False)
    assert not join_memory.finding(answers, sizes).equal


def test_latency_has_percentiles_and_the_rates_in_order() -> None:
    many = tuple(n / 100 for n in range(101))
    points = [
        Point("spark", "spark", 0.5, 500.0, (2.0, 2.0), True),
        Point("penstock", "penstock", 0.5, 900.0, many, True),
        Point("penstock", "spark", 0.5, 500.0, (0.1,), True),
    ]
    found = latency.finding(points)
    assert [(one["system"], one["rate"]) for one in found.records] == [
        ("penstock", 500.0),
        ("penstock", 900.0),
        ("spark", 500.0),
    ]
    assert found.records[1]["median_seconds"] == pytest.approx(0.5)
    assert found.records[1]["percentile_99_seconds"] == pytest.approx(0.99)
    assert found.holds
    assert not latency.finding([replace(points[0], equal=False), *points[1:]]).equal


def _trial(seconds: float, equal: bool = True) -> SystemTrial:
    return SystemTrial(seconds, 1_000, 10, equal, "")


def test_the_adapter_is_compared_by_rows_per_second() -> None:
    chosen = [adapter.Chosen(side, 5) for side in adapter.SIDES]
    found = adapter.finding(chosen, [[_trial(1.0), _trial(1.0), _trial(9.0)], [_trial(3.5)] * 3])
    assert verdicts(found) == [(pytest.approx(3.5), True)]
    assert [one["system"] for one in found.records] == ["penstock, adapter", "spark"]
    assert not adapter.finding(chosen, [[_trial(1.0, equal=False)], [_trial(9.0)]]).equal


def test_wide_rows_need_results_of_both() -> None:
    ours = Measurement("wide", "penstock", Limits(), (_trial(1.0),))
    theirs = Measurement("wide", "spark", Limits(), (_trial(4.0),))
    assert verdicts(wide.finding([ours, theirs])) == [(pytest.approx(4.0), False)]
    with pytest.raises(PenstockError, match="spark gave no result"):
        wide.finding([ours, replace(theirs, trials=(), failed="out of memory")])


FOUND = Finding(
    records=({"what": "an epoch", "ms": 1.234, "right": True}, {"what": "a job", "ms": None, "right": False}),
    bars=(Bar("an epoch, of a job", 2.0, "at most", 1.5), Bar("rows", 4.0, "at least", 3.0)),
    equal=True,
)
COLUMNS = (Column("what", "what"), Column("ms", "ms", ".1f"), Column("right", "right"))
TRIED = Experiment("tried", "A thing that is tried", "What the figures are.", COLUMNS, lambda setting: FOUND)


def test_the_table_shows_figures_and_verdicts() -> None:
    out = StringIO()
    Console(file=out, width=100).print(as_tables([(TRIED, replace(FOUND, equal=False))]))
    text = out.getvalue()
    for shown in ("tried: A thing that is tried", "1.2 ", "yes", "NO", "What the figures are."):
        assert shown in text
    assert "an epoch, of a job: 2.00, at most 1.50 times: MISSED" in text
    assert "rows: 4.00, at least 3.00 times: reached" in text
    assert "NOT EQUAL" in text


def test_the_json_has_every_record_and_every_bar() -> None:
    (one,) = json.loads(as_json([(TRIED, FOUND)]))
    assert one["experiment"] == "tried"
    assert one["records"][0] == {"what": "an epoch", "ms": 1.234, "right": True}
    assert [bar["reached"] for bar in one["bars"]] == [False, True]
    assert (one["equal"], one["holds"]) == (True, False)


def test_experiments_have_names_of_their_own() -> None:
    assert not set(experiment_names()) & {*WORKLOADS, "order"}
    assert all(name == experiment.name for name, experiment in EXPERIMENTS.items())


def test_a_missed_bar_fails_also_where_it_was_only_tried_quickly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    given: list[Setting] = []

    def measure(setting: Setting) -> Finding:
        given.append(setting)
        return FOUND

    monkeypatch.setitem(EXPERIMENTS, "tried", replace(TRIED, measure=measure))
    assert bench_also.run_experiments(["tried", "tried"], 2, tmp_path, True, tmp_path / "report") == 1
    assert [(one.repeat, one.quick) for one in given] == [(2, False)]
    assert json.loads(capsys.readouterr().out)["experiment"] == "tried"
    assert json.loads((tmp_path / "report" / "experiments.json").read_text())[0]["experiment"] == "tried"
    assert bench_also.run_experiments(["tried"], 2, tmp_path, False, None, quick=True) == 1
    assert "A quick run: little data, some cases left out" in " ".join(capsys.readouterr().out.split())
    reached = replace(FOUND, bars=FOUND.bars[1:])
    monkeypatch.setitem(EXPERIMENTS, "tried", replace(TRIED, measure=lambda setting: reached))
    assert bench_also.run_experiments(["tried"], 2, tmp_path, False, None, quick=True) == 0
    monkeypatch.setitem(EXPERIMENTS, "tried", replace(TRIED, measure=lambda setting: replace(FOUND, equal=False)))
    assert bench_also.run_experiments(["tried"], 2, tmp_path, False, None, quick=True) == 1


def test_an_unknown_experiment_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="`epoch-costs` is not an experiment"):
        bench_also.run_experiments(["epoch-costs"], 1, tmp_path, False, None)


def test_an_interrupted_experiment_keeps_those_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(setting: Setting) -> Finding:
        raise KeyboardInterrupt

    monkeypatch.setitem(EXPERIMENTS, "tried", replace(TRIED, measure=lambda setting: FOUND))
    monkeypatch.setitem(EXPERIMENTS, "second", replace(TRIED, name="second", measure=interrupted))
    assert bench_also.run_experiments(["tried", "second"], 1, tmp_path, True, tmp_path / "report") == 130
    assert json.loads(capsys.readouterr().out)["experiment"] == "tried"
    assert len(json.loads((tmp_path / "report" / "experiments.json").read_text())) == 1
