from __future__ import annotations

from pathlib import Path

import pytest

from penstock.bench import runner
from penstock.bench.child import Job, RunResult, execute
from penstock.bench.data import ensure_data
from penstock.bench.launch import launch
from penstock.bench.oracle import closed_by_watermark, equal
from penstock.bench.runner import Measurement, Trial, run_bench
from penstock.bench.systems import SYSTEMS, Limits, system_named
from penstock.bench.workloads import WORKLOADS
from penstock.errors import ConfigError, PenstockError

ROWS = 20_000


def quiet(line: str) -> None:
    """For runs whose progress lines are not looked at."""


def job(system: str, workload: str, folder: Path, **limits: int) -> Job:
    data = str(ensure_data(folder / "data", ROWS))
    return Job(system, workload, data, None, str(folder / "scratch"), Limits(**limits))


def test_duckdb_is_measured_and_checked_on_all_workloads(tmp_path: Path) -> None:
    lines: list[str] = []
    found = run_bench(sorted(WORKLOADS), ["duckdb"], ROWS, 1, tmp_path, tell=lines.append)
    assert [(one.workload, one.system, one.equal) for one in found] == [
        ("slide", "duckdb", True),
        ("tumble", "duckdb", True),
    ]
    assert all(one.seconds > 0 and one.peak_memory_bytes > 10 * 2**20 for one in found)
    assert all(one.trials[0].rows_in == ROWS for one in found)
    assert lines[0] == "slide on duckdb, run 1/1 ..."
    assert list((tmp_path / "runs").iterdir()) == []


def test_systems_take_turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def fake(job: Job, log: Path) -> RunResult:
        asked.append(job.system)
        return RunResult(float(len(asked)), ROWS, 0, 5, str(tmp_path / "nothing"))

    monkeypatch.setattr(runner, "launch", fake)
    found = run_bench(["tumble"], ["duckdb", "spark"], ROWS, 3, tmp_path / "w", tell=quiet)
    assert asked == ["duckdb", "spark"] * 3
    assert [one.seconds for one in found] == [3.0, 4.0]
    assert [one.spread for one in found] == [(1.0, 5.0), (2.0, 6.0)]
    assert not any(one.equal for one in found)


def test_spark_keeps_the_fastest_batch_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, int]] = []

    def fake(job: Job, log: Path) -> RunResult:
        asked.append((job.system, job.limits.files_per_trigger))
        return RunResult(abs(job.limits.files_per_trigger - 5) + 1.0, ROWS, 0, 5, str(tmp_path / "nothing"))

    monkeypatch.setattr(runner, "launch", fake)
    found = run_bench(
        ["tumble"], ["duckdb", "spark"], ROWS, 1, tmp_path / "w", files_per_trigger=(1, 5, 10), tell=quiet
    )
    assert asked == [("spark", 1), ("spark", 5), ("spark", 10), ("duckdb", 1), ("spark", 5)]
    assert [one.limits.files_per_trigger for one in found] == [1, 5]


def test_rows_not_read_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = execute(job("duckdb", "tumble", tmp_path))
    pair = runner.Pair(WORKLOADS["tumble"], system_named("duckdb"), Limits())
    assert runner.check(pair, done, tmp_path / "data").equal
    short = RunResult(done.seconds, ROWS - 1, done.rows_out, done.peak_memory_bytes, done.result_path)
    trial = runner.check(pair, short, tmp_path / "data")
    assert not trial.equal
    assert trial.detail.startswith("read 19999 of 20000 rows")


def test_one_wrong_trial_makes_a_measurement_wrong() -> None:
    trials = tuple(Trial(seconds, 100, memory, right, "") for seconds, memory, right in [(1, 7, True), (3, 5, False)])
    one = Measurement("tumble", "spark", Limits(), trials)
    assert (one.seconds, one.rows_per_second, one.peak_memory_bytes, one.equal) == (2, 50, 7, False)


def test_a_failing_child_is_an_error_with_its_last_words(tmp_path: Path) -> None:
    broken = Job("duckdb", "tumble", str(tmp_path / "none"), None, str(tmp_path / "s"), Limits())
    with pytest.raises(PenstockError, match="duckdb failed on workload tumble") as caught:
        launch(broken, tmp_path / "log")
    assert "No files found" in caught.value.detail
    assert str(tmp_path / "log") in caught.value.hint


@pytest.mark.parametrize(
    ("workloads", "systems", "repeat", "complaint"),
    [
        (["tumbel"], ["duckdb"], 1, "did you mean `tumble`"),
        (["tumble"], ["sparc"], 1, "did you mean `spark`"),
        (["tumble"], ["duckdb"], 0, "at least one repetition"),
    ],
)
def test_bad_requests_are_refused_before_anything_runs(
    tmp_path: Path, workloads: list[str], systems: list[str], repeat: int, complaint: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        run_bench(workloads, systems, ROWS, repeat, tmp_path, tell=quiet)
    assert complaint in str(caught.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.spark
def test_spark_gives_the_batch_answer_up_to_its_watermark(tmp_path: Path) -> None:
    done = launch(job("spark", "tumble", tmp_path, files_per_trigger=5), tmp_path / "log")
    workload, data = WORKLOADS["tumble"], tmp_path / "data"
    assert SYSTEMS["spark"].closes == "watermark"
    right, detail = equal(Path(done.result_path), workload, data, closed_by_watermark(workload, data))
    assert right, detail
    assert done.rows_in == ROWS
    assert done.peak_memory_bytes > 200 * 2**20  # so the JVM is counted, and not this Python alone
