"""The experiments on order, small, and what is made of their measurements."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from rich.console import Console
from typer.testing import CliRunner

from penstock.cli.main import app
from penstock.errors import ConfigError
from penstock.progress.mark import END, Mark, at
from penstock_bench.order.comparison import Comparison, differing_rows, measured_points
from penstock_bench.order.experiments import EXPERIMENTS, Experiment, Size, Windowed
from penstock_bench.order.held import Held
from penstock_bench.order.latency import Latency, latency
from penstock_bench.order.page import write_report
from penstock_bench.order.report import as_json, as_tables
from penstock_bench.order.run import Epoch, run_trial

TINY = Size(share=0.02, stretch=5, every=10)


def quiet(text: str) -> None:
    pass


@pytest.fixture(scope="module")
def compared() -> list[Comparison]:
    return list(measured_points(size=TINY, tell=quiet))


def test_every_experiment_is_measured_at_its_last_point_and_right(compared: Sequence[Comparison]) -> None:
    found = {one.in_order.experiment.name: one.in_order.point for one in compared}
    assert found == {name: experiment.points[-1] for name, experiment in EXPERIMENTS.items()}
    assert all(measured.equal and measured.rows_out > 0 for one in compared for measured in one.both)


def test_in_order_holds_rows_back_and_out_of_order_does_not(compared: Sequence[Comparison]) -> None:
    assert all(one.in_order.held.ordering > 0 for one in compared)
    assert all(one.out_of_order.held.ordering == 0 < one.out_of_order.held.state for one in compared)


def test_the_bars_hold(compared: Sequence[Comparison]) -> None:
    barred = {one.in_order.experiment.name: one.holds for one in compared if one.bar is not None}
    assert barred == {"q1": True, "q7": True, "q9": True}


def test_in_order_waits_for_a_band_that_out_of_order_need_not_wait_for(compared: Sequence[Comparison]) -> None:
    skewed = next(one for one in compared if one.in_order.experiment.name == "q7-skew")
    assert skewed.in_order.latency is not None
    assert skewed.in_order.latency.epochs > 0
    assert skewed.out_of_order.latency is not None
    assert skewed.out_of_order.latency.epochs == 0


def test_json_has_one_object_per_experiment_point_and_mode(compared: Sequence[Comparison]) -> None:
    found = json.loads(as_json(compared))
    assert [(one["experiment"], one["mode"]) for one in found] == [(n, m) for n in EXPERIMENTS for m in ("in", "out")]
    for one in found:
        assert one["held_bytes"] == one["state_bytes"] + one["pending_bytes"] + one["ordering_bytes"] > 0
        assert (one["latency_epochs"] is not None) == one["experiment"].startswith("q7")


def test_the_report_has_a_picture_for_each_experiment(compared: Sequence[Comparison], tmp_path: Path) -> None:
    page = write_report(compared, tmp_path / "new" / "folder")
    text = page.read_text()
    for experiment in EXPERIMENTS.values():
        picture = page.parent / f"figure-{experiment.figure}-{experiment.name}.png"
        assert picture.read_bytes().startswith(b"\x89PNG")
        assert f'src="{picture.name}"' in text
    assert json.loads((page.parent / "order.json").read_text()) == json.loads(as_json(compared))


def printed(compared: Sequence[Comparison]) -> str:
    console = Console(width=120)
    with console.capture() as capture:
        console.print(as_tables(compared))
    return capture.get()


def test_a_wrong_result_and_a_missed_bar_cannot_be_overlooked(compared: Sequence[Comparison], tmp_path: Path) -> None:
    first = compared[0]
    assert "MISSED" not in printed([first])
    assert "NO" not in printed([first])
    wrong = replace(first, in_order=replace(first.in_order, equal=False))
    large = replace(first, out_of_order=replace(first.out_of_order, held=first.in_order.held))
    assert "NO" in printed([wrong])
    assert not wrong.holds
    assert "1.0000 MISSED" in printed([large])
    assert not large.holds
    assert 'class="missed"' in write_report([large], tmp_path).read_text()


def test_rows_are_compared_as_multisets() -> None:
    rows = pa.table({"a": [1, 2, 2, None]})
    assert differing_rows(rows, rows.take([3, 2, 1, 0])) == 0
    assert differing_rows(rows, rows.slice(0, 3)) == 1
    assert differing_rows(rows, rows.take([0, 0, 1, 2])) == 2
    assert differing_rows(rows, pa.table({"a": [1, 2, 3, None]})) == 2


def epoch(seconds: float, m1: Mark, m2: Mark, *starts: int) -> Epoch:
    results = pa.table({"window_start": pa.array(starts, pa.int64())})
    return Epoch(Held(), seconds, 0.0, {"m1": m1, "m2": m2}, results)


def test_latency_is_counted_from_the_punctuation_that_covers_a_result() -> None:
    windows = Windowed(10, {"m1": 0, "m2": 5})
    epochs = [
        epoch(1.0, at(10), at(14)),  # the window [0, 10) also needs m2 at 15
        epoch(2.0, at(10), at(15)),
        epoch(4.0, at(15), at(25), 0),  # published one epoch late
        epoch(8.0, at(20), at(30), 10),  # [10, 20) at once
        epoch(16.0, END, END, 20, 30),  # the end covers everything
    ]
    assert latency(epochs, windows, 1_000) == Latency(0.25, 250.0, (2 + 4 + 8 + 16 + 16) / 4)


def test_the_peak_is_that_of_the_epoch_which_held_most() -> None:
    experiment = EXPERIMENTS["q1"]
    trial = run_trial(experiment.ask(experiment, 40, TINY), "in")
    totals = [one.held.total for one in trial.epochs]
    assert trial.peak.total == max(totals) > 10 * totals[-1]
    assert totals[-1] == 0  # at the end nothing is needed any more


def test_sizes_that_make_no_sense_are_refused() -> None:
    for wrong in ({"share": 0.0}, {"share": 1.5}, {"stretch": 0}, {"every": 0}):
        with pytest.raises(ConfigError):
            Size(**wrong)
    with pytest.raises(ConfigError):
        list(measured_points(repeat=0))


def test_the_command_prints_json_and_reports(monkeypatch: pytest.MonkeyPatch, compared: list[Comparison]) -> None:
    asked: list[tuple[Size, int]] = []

    def measured(size: Size, repeat: int, tell: object) -> list[Comparison]:
        asked.append((size, repeat))
        return compared

    monkeypatch.setattr("penstock_bench.cli.order.measured_points", measured)
    done = CliRunner().invoke(app, ["bench", "order", "--quick", "--repeat", "2", "--json"])
    assert done.exit_code == 0, done.output
    assert len([json.loads(line) for line in done.stdout.splitlines()]) == 2 * len(compared)
    assert asked[0][0].share < 1
    assert asked[0][1] == 2


def test_the_command_fails_where_a_bar_is_missed(monkeypatch: pytest.MonkeyPatch, compared: list[Comparison]) -> None:
    missed = [replace(compared[0], bar=0.0)]
    monkeypatch.setattr("penstock_bench.cli.order.measured_points", lambda **_: missed)
    assert CliRunner().invoke(app, ["bench", "order", "--json"]).exit_code == 1


def test_points_are_counted_from_the_last(compared: Sequence[Comparison]) -> None:
    experiment: Experiment = EXPERIMENTS["q1"]
    assert experiment.measured_points(Size()) == experiment.points
    assert experiment.measured_points(Size(every=3)) == (experiment.points[0], experiment.points[-1])


@pytest.mark.parametrize(
    "arguments", [["order", "tumble"], ["order", "--rows", "5"], ["order", "--system", "spark"], ["tumble", "--quick"]]
)
def test_the_command_refuses_what_does_not_go_together(arguments: list[str]) -> None:
    done = CliRunner().invoke(app, ["bench", *arguments])
    assert done.exit_code == 1
    assert "`order` is a benchmark of its own" in done.stderr
