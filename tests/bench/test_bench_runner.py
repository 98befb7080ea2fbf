from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.errors import ConfigError, PenstockError
from penstock_bench.check.compare import Compared
from penstock_bench.check.oracle import closed_by_watermark, equal
from penstock_bench.rows.data import ensure_data
from penstock_bench.run import pairs, runner
from penstock_bench.run.child import Job, RunResult, execute
from penstock_bench.run.launch import launch
from penstock_bench.run.measurement import Measurement, Trial
from penstock_bench.run.pairs import Pair, chosen_pairs
from penstock_bench.run.runner import run_bench
from penstock_bench.system import SYSTEMS, Entry, Limits, system_named
from penstock_bench.workloads import WORKLOADS

ROWS = 20_000
RIGHT = Compared(True, "1 rows right")


def quiet(line: str) -> None:
    """For runs whose progress lines are not looked at."""


def job(system: str, workload: str, folder: Path, **limits: int) -> Job:
    data = str(ensure_data(folder / "data", ROWS, WORKLOADS[workload].streams))
    return Job(system, workload, data, None, str(folder / "scratch"), Limits(**limits))


def done_in(seconds: float, job: Job) -> RunResult:
    return RunResult(seconds, ROWS, 3, 5, job.scratch, 4)


@pytest.fixture
def pretend(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[Job], float]], list[Job]]:
    """Runs take the seconds that a function says, and all results are right; gives the jobs that were launched."""

    def start(seconds: Callable[[Job], float]) -> list[Job]:
        launched: list[Job] = []

        def fake(job: Job, log: Path) -> RunResult:
            launched.append(job)
            return done_in(seconds(job), job)

        monkeypatch.setattr(runner, "launch", fake)
        monkeypatch.setattr(runner, "equal", lambda *arguments: RIGHT)
        return launched

    return start


Pretend = Callable[[Callable[[Job], float]], list[Job]]


def test_duckdb_is_measured_and_checked(tmp_path: Path) -> None:
    lines: list[str] = []
    found = run_bench(["tumble", "band"], ["duckdb"], ROWS, 1, tmp_path, tell=lines.append)
    assert [(one.workload, one.system, one.equal, one.holds) for one in found] == [
        ("tumble", "duckdb", True, True),
        ("band", "duckdb", True, True),
    ]
    assert all(one.seconds > 0 and one.peak_memory_bytes > 10 * 2**20 for one in found)
    assert [one.trials[0].rows_in for one in found] == [ROWS, 2 * ROWS]
    assert found[1].trials[0].rows_out == 122
    assert lines[0] == "tumble on duckdb, run 1/1 ..."
    assert list((tmp_path / "runs").iterdir()) == []


def test_systems_take_turns(tmp_path: Path, pretend: Pretend) -> None:
    launched = pretend(lambda job: float(len(launched)))
    found = run_bench(["tumble"], ["duckdb", "spark"], ROWS, 3, tmp_path, tell=quiet)
    assert [job.system for job in launched] == ["duckdb", "spark"] * 3
    assert [one.seconds for one in found] == [3.0, 4.0]
    assert [one.spread for one in found] == [(1.0, 5.0), (2.0, 6.0)]
    assert [one.epochs for one in found] == [4, 4]


def test_spark_keeps_the_fastest_batch_size(tmp_path: Path, pretend: Pretend) -> None:
    launched = pretend(lambda job: abs(job.limits.files_per_trigger - 5) + 1.0)
    found = run_bench(
        ["tumble"],
        ["duckdb", "spark"],
        ROWS,
        1,
        tmp_path,
        files_per_trigger=(1, 5, 10),
        limits=Limits(2, 3),
        tell=quiet,
    )
    tried = [(job.system, job.limits.files_per_trigger) for job in launched]
    assert tried == [("spark", 1), ("spark", 5), ("spark", 10), ("duckdb", 1), ("spark", 5)]
    assert [one.limits for one in found] == [Limits(2, 3, 1), Limits(2, 3, 5)]
    assert [len(one.trials) for one in found] == [1, 1]


def test_a_batch_size_that_fails_is_not_kept(tmp_path: Path, pretend: Pretend) -> None:
    def fails_on_ten(job: Job) -> float:
        if job.limits.files_per_trigger == 10:
            raise PenstockError("out of memory")
        return float(job.limits.files_per_trigger)

    pretend(fails_on_ten)
    (found,) = run_bench(["tumble"], ["spark"], ROWS, 1, tmp_path, files_per_trigger=(10, 5), tell=quiet)
    assert (found.limits.files_per_trigger, found.failed) == (5, None)
    (failed,) = run_bench(["tumble"], ["spark"], ROWS, 1, tmp_path, files_per_trigger=(10,), tell=quiet)
    assert failed.failed is not None
    assert not failed.trials


def test_a_system_that_fails_takes_nothing_from_the_others(tmp_path: Path, pretend: Pretend) -> None:
    def second_spark_fails(job: Job) -> float:
        if job.system == "spark" and len([one for one in launched if one.system == "spark"]) == 2:
            raise PenstockError("spark failed", detail="out of memory")
        return 2.0

    launched = pretend(second_spark_fails)
    lines: list[str] = []
    ours, spark, duckdb = run_bench(["tumble"], ["penstock", "spark", "duckdb"], ROWS, 3, tmp_path, tell=lines.append)
    assert (len(ours.trials), len(spark.trials), len(duckdb.trials)) == (3, 1, 3)
    assert (ours.holds, spark.holds, duckdb.holds) == (True, False, True)
    assert spark.failed is not None
    assert "out of memory" in spark.failed
    assert [job.system for job in launched].count("spark") == 2  # the one that failed was the last
    assert any("failed" in line for line in lines)


def test_a_refusal_is_told_and_nothing_is_run(tmp_path: Path, pretend: Pretend) -> None:
    launched = pretend(lambda job: 1.0)
    spark, panes, duckdb = run_bench(
        ["theta"], ["spark", "spark-panes", "duckdb"], 1_000_000, 1, tmp_path, tell=quiet, files_per_trigger=(1, 2)
    )
    assert [job.system for job in launched] == ["duckdb"]
    assert spark.refused == "a stream-stream join needs an equality"
    assert panes.refused == "nobody has rewritten this workload by hand"
    assert (spark.trials, spark.equal, spark.holds, duckdb.refused) == ((), False, True, None)
    assert launched[0].data_dir.endswith("data-20000")  # a theta join reads 2 % of the rows


def test_a_system_that_is_not_installed_fails_only_if_it_was_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def only_flink(entry: Entry) -> str | None:
        return "not installed: run make flink" if entry.name == "flink" else None

    monkeypatch.setattr(pairs, "missing", only_flink)
    everyone = {pair.entry.name: pair for pair in chosen_pairs(["tumble"], [], Limits())}
    assert everyone["flink"].refused == "not installed: run make flink"
    assert everyone["flink"].missing is None
    (named,) = chosen_pairs(["tumble"], ["flink"], Limits())
    assert (named.refused, named.missing) == (None, "not installed: run make flink")


def test_what_was_named_but_is_not_installed_counts_as_failed(
    tmp_path: Path, pretend: Pretend, monkeypatch: pytest.MonkeyPatch
) -> None:
    launched = pretend(lambda job: 1.0)
    monkeypatch.setattr(pairs, "missing", lambda entry: "not there")
    (found,) = run_bench(["tumble"], ["flink"], ROWS, 1, tmp_path, tell=quiet)
    assert (found.failed, found.holds, launched) == ("not there", False, [])


def test_without_names_everyone_is_asked_everything_but_rewritings_that_do_not_exist(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pairs, "missing", lambda entry: None)
    asked = {(pair.workload.name, pair.entry.name) for pair in chosen_pairs([], [], Limits())}
    assert {workload for workload, _ in asked} == set(WORKLOADS)
    assert {system for _, system in asked} == set(SYSTEMS)
    assert ("slide", "spark-panes") in asked
    assert ("tumble", "spark-panes") not in asked
    assert len(chosen_pairs(["tumble", "tumble"], ["duckdb", "duckdb"], Limits())) == 1


def test_rows_not_read_are_told(tmp_path: Path) -> None:
    done = execute(job("duckdb", "tumble", tmp_path))
    pair = Pair(WORKLOADS["tumble"], system_named("duckdb"), Limits())
    assert runner.check(pair, done, tmp_path / "data").equal
    trial = runner.check(pair, replace(done, rows_in=ROWS - 1), tmp_path / "data")
    assert not trial.equal
    assert trial.detail.startswith("read 19999 of 20000 rows")


def test_who_closes_by_watermark_is_not_asked_for_open_windows(tmp_path: Path) -> None:
    done = execute(job("duckdb", "tumble", tmp_path))
    spark = Pair(WORKLOADS["tumble"], system_named("spark"), Limits())
    assert not runner.check(spark, done, tmp_path / "data").equal  # windows are there that Spark leaves open


def test_one_wrong_trial_makes_a_measurement_wrong() -> None:
    trials = tuple(Trial(seconds, 100, memory, right, "") for seconds, memory, right in [(1, 7, True), (3, 5, False)])
    one = Measurement("tumble", "spark", Limits(), trials)
    assert (one.seconds, one.rows_per_second, one.peak_memory_bytes) == (2, 50, 7)
    assert (one.equal, one.holds) == (False, False)


def test_a_failing_child_is_an_error_with_its_last_words(tmp_path: Path) -> None:
    broken = Job("duckdb", "tumble", str(tmp_path / "none"), None, str(tmp_path / "s"), Limits())
    with pytest.raises(PenstockError, match="duckdb failed on workload tumble") as caught:
        launch(broken, tmp_path / "log")
    assert "No files found" in caught.value.detail
    assert str(tmp_path / "log") in caught.value.hint


@pytest.mark.parametrize(
    ("workloads", "systems", "rows", "repeat", "complaint"),
    [
        (["tumbel"], ["duckdb"], ROWS, 1, "did you mean `tumble`"),
        (["tumble"], ["sparc"], ROWS, 1, "did you mean `spark`"),
        (["tumble"], ["duckdb"], ROWS, 0, "at least one repetition"),
        (["tumble"], ["duckdb"], 9, 1, "at least 10 rows"),
    ],
)
def test_bad_requests_are_refused_before_anything_runs(
    tmp_path: Path, workloads: list[str], systems: list[str], rows: int, repeat: int, complaint: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        run_bench(workloads, systems, rows, repeat, tmp_path, tell=quiet)
    assert complaint in str(caught.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.spark
def test_spark_gives_the_batch_answer_up_to_its_watermark(tmp_path: Path) -> None:
    done = launch(job("spark", "tumble", tmp_path, files_per_trigger=5, memory_gib=2), tmp_path / "log")
    workload, data = WORKLOADS["tumble"], tmp_path / "data"
    assert SYSTEMS["spark"].closes == "watermark"
    compared = equal(Path(done.result_path), workload, data, closed_by_watermark(workload, data))
    assert compared.equal, compared.detail
    assert (done.rows_in, done.epochs) == (ROWS, 2)
    assert done.peak_memory_bytes > 200 * 2**20  # so the JVM is counted, and not this Python alone
