"""The command line of the benchmark; what it runs is pretended."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from penstock.cli.main import app
from penstock_bench.cli import experiments as bench_also
from penstock_bench.cli import workloads as command
from penstock_bench.run.measurement import Measurement, Trial
from penstock_bench.system import Limits


class Asked:
    """What `measured_workloads` was called with; it gives the measurements that a test wants."""

    def __init__(self, measurements: Sequence[Measurement]) -> None:
        self.measurements = list(measurements)
        self.positional: tuple[Any, ...] = ()
        self.named: dict[str, Any] = {}
        self.interrupted = False

    def __call__(self, *positional: Any, **named: Any) -> Iterator[list[Measurement]]:
        self.positional, self.named = positional, named
        yield self.measurements
        if self.interrupted:
            raise KeyboardInterrupt


def measured(right: bool = True, **other: Any) -> Measurement:
    trials = () if other else (Trial(2.0, 100, 2**20, right, "1 missing"),)
    return Measurement("tumble", "duckdb", Limits(), trials, **other)


def bench(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["bench", *arguments])


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    asked = Asked([measured()])
    monkeypatch.setattr(command, "measured_workloads", asked)
    return asked


def test_options_reach_the_benchmark(asked: Asked, tmp_path: Path) -> None:
    done = bench(
        "tumble", "band", "--systems", "duckdb, spark", "--system", "flink", "--rows", "500", "--repeat", "2",
        "--work", str(tmp_path), "--memory", "5", "--files-per-trigger", "1,2,10",
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    assert asked.positional == (["tumble", "band"], ["duckdb", "spark", "flink"], 500, 2, tmp_path)
    assert asked.named["limits"] == Limits(memory_gib=5)
    assert asked.named["files_per_trigger"] == [1, 2, 10]


def test_without_options_everything_is_asked_at_full_size(asked: Asked) -> None:
    assert bench().exit_code == 0
    assert asked.positional == ([], [], 4_000_000, 3, Path("bench-work"))
    assert (asked.named["limits"], asked.named["files_per_trigger"]) == (Limits(), [])


def test_json_is_all_that_is_on_stdout(asked: Asked) -> None:
    record = json.loads(bench("tumble", "--json").stdout)
    assert (record["workload"], record["system"], record["rows_per_second"]) == ("tumble", "duckdb", 50.0)


def test_a_report_is_written_beside_the_table(asked: Asked, tmp_path: Path) -> None:
    done = bench("tumble", "--report", str(tmp_path / "report"))
    assert done.exit_code == 0, done.output
    assert "duckdb" in done.stdout
    assert (tmp_path / "report" / "index.html").exists()
    assert str(tmp_path / "report" / "index.html") in done.stderr


@pytest.mark.parametrize(
    ("found", "code"),
    [
        (measured(), 0),
        (measured(refused="it cannot"), 0),
        (measured(right=False), 1),
        (measured(failed="out of memory"), 1),
    ],
    ids=["right", "refused", "wrong", "failed"],
)
def test_the_exit_code_says_whether_anything_went_wrong(asked: Asked, found: Measurement, code: int) -> None:
    asked.measurements.append(found)
    assert bench("tumble").exit_code == code


@pytest.mark.parametrize("sizes", ["1,x", "0", "1.5"])
def test_batch_sizes_must_be_whole_numbers(asked: Asked, sizes: str) -> None:
    done = bench("tumble", "--files-per-trigger", sizes)
    assert done.exit_code == 1
    assert "whole numbers between commas" in done.stderr
    assert not asked.positional


def test_experiments_are_run_by_themselves(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[tuple[Any, ...]] = []

    def fake(*arguments: Any) -> int:
        called.append(arguments)
        return 0

    monkeypatch.setattr(bench_also, "run_experiments", fake)
    assert bench("expiry", "slide-cost", "--quick", "--work", "w").exit_code == 0
    assert called == [(["expiry", "slide-cost"], 3, Path("w"), False, None, True)]
    assert bench("expiry", "--rows", "100").exit_code == 1
    assert (len(called), asked.positional) == (1, ())


def test_an_interrupted_benchmark_keeps_what_it_has(asked: Asked, tmp_path: Path) -> None:
    asked.interrupted = True
    as_lines = bench("tumble", "band", "--json", "--report", str(tmp_path / "report"))
    assert as_lines.exit_code == 130
    assert [json.loads(line)["workload"] for line in as_lines.stdout.splitlines()] == ["tumble"]
    assert "interrupted: 1 finished" in as_lines.stderr
    assert (tmp_path / "report" / "index.html").exists()
    as_table = bench("tumble", "band")
    assert (as_table.exit_code, "duckdb" in as_table.stdout) == (130, True)
