"""The log as users of the command line ask for it: --log-level, --log-file, --log-format."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cli_case import COUNT, calls, penstock, run, to_files
from typer.testing import Result

from penstock.engine.driver.executor import InlineExecutor
from penstock.engine.wire.job import EpochJob, LookAhead, Report, RouteTask, nothing_follows
from penstock.errors import AttemptFailed, LostWorker

ROWS = 1_000


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "busy.sql").write_text(calls(rows=ROWS) + to_files())
    return tmp_path


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def logged(folder: Path, *options: str) -> list[dict[str, Any]]:
    """Run the script and return the lines of its log."""
    (folder / "x.jsonl").unlink(missing_ok=True)
    result = run("busy.sql", "--log-file", "x.jsonl", "--log-format", "json", *options)
    assert result.exit_code == 0, result.stderr
    return lines(folder / "x.jsonl")


def of_events(found: Sequence[dict[str, Any]], event: str) -> list[dict[str, Any]]:
    return [line for line in found if line.get("event") == event]


class Failing(InlineExecutor):
    """Raises errors, one per attempt, before it runs epochs."""

    def __init__(self, errors: Sequence[AttemptFailed]) -> None:
        super().__init__()
        self._errors = list(errors)

    def run(self, job: EpochJob, routes: Sequence[RouteTask], following: LookAhead = nothing_follows) -> list[Report]:
        if self._errors:
            raise self._errors.pop(0)
        return super().run(job, routes, following)


def failing(monkeypatch: pytest.MonkeyPatch, *errors: AttemptFailed) -> None:
    monkeypatch.setattr("penstock.api.launch.executor_for", lambda settings, handed_over: Failing(errors))


def lost(worker: int) -> LostWorker:
    error = LostWorker("a task of epoch 1 failed repeatedly", detail=f"worker {worker} died")
    error.worker = worker
    return error


def test_a_run_writes_json_lines_with_query_and_epoch(folder: Path) -> None:
    found = logged(folder, "--log-level", "info", "--rows-per-epoch", "250")
    assert all({"time", "level", "logger", "message"} <= line.keys() for line in found)
    assert all(line["logger"].startswith("penstock.") for line in found)
    age = datetime.now(UTC) - datetime.fromisoformat(found[0]["time"])
    assert timedelta(0) <= age < timedelta(minutes=5)
    committed = of_events(found, "EpochCommitted")
    assert [(line["query"], line["epoch"], line["rows_in"]) for line in committed] == [
        ("busy-busy", epoch, 250) for epoch in range(1, 5)
    ]
    (started,) = [line for line in found if "query_id" in line]
    assert started["checkpoint"] == str(folder / ".penstock" / "busy-busy")
    assert "the run has finished after epoch 4" in found[-1]["message"]


def test_the_level_bounds_what_is_logged(folder: Path) -> None:
    at_debug = logged(folder, "--log-level", "debug")
    assert {line["level"] for line in at_debug} == {"debug", "info"}
    assert of_events(at_debug, "EpochTimed")[0]["driver"].keys() >= {"plan", "run", "commit"}
    assert logged(folder, "--fresh", "--yes", "--log-level", "WARNING") == []


def test_without_options_nothing_is_logged(folder: Path) -> None:
    quiet = run("busy.sql")
    assert quiet.exit_code == 0
    assert "penstock." not in quiet.stderr
    assert "epoch 1 is committed" not in quiet.stderr
    assert not list(folder.glob("*log*"))


def test_lines_of_text_go_to_stderr(folder: Path) -> None:
    result = run("busy.sql", "--log-level", "info")
    (line,) = [line for line in result.stderr.splitlines() if "epoch 1 is committed" in line]
    time, level, logger, query, *_ = line.split()
    assert datetime.fromisoformat(time).tzinfo == UTC
    assert (level, logger, query) == ("INFO", "penstock.engine", "[busy-busy]")
    assert "penstock.engine" not in result.stdout


def test_after_the_command_logging_is_as_it_was(folder: Path) -> None:
    before = (logging.getLogger("penstock").level, list(logging.getLogger("penstock").handlers))
    logged(folder, "--log-level", "debug")
    assert (logging.getLogger("penstock").level, list(logging.getLogger("penstock").handlers)) == before
    assert logging.getLogger("penstock").propagate


def test_a_log_is_appended_to(folder: Path) -> None:
    (folder / "x.log").write_text("an earlier run\n")
    run("busy.sql", "--log-file", "x.log")
    first, *others = (folder / "x.log").read_text().splitlines()
    assert first == "an earlier run"
    assert any("epoch 1 is committed" in line for line in others)


def test_the_environment_asks_for_a_log(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_LOG_FILE", "from-environment.jsonl")
    monkeypatch.setenv("PENSTOCK_LOG_FORMAT", "json")
    monkeypatch.setenv("PENSTOCK_LOG_LEVEL", "warning")
    assert run("busy.sql").exit_code == 0
    assert lines(folder / "from-environment.jsonl") == []
    assert run("busy.sql", "--fresh", "--yes", "--log-level", "info").exit_code == 0
    assert of_events(lines(folder / "from-environment.jsonl"), "EpochCommitted")


def test_an_attempt_that_fails_and_its_lost_worker_are_logged(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    failing(monkeypatch, lost(1), AttemptFailed("a task failed", detail="tasks disagree"))
    found = logged(folder)
    (died,) = of_events(found, "WorkerDied")
    assert {name: died[name] for name in ("query", "epoch", "attempt", "worker", "reason", "level", "logger")} == {
        "query": "busy-busy", "epoch": 1, "attempt": 1, "worker": 1, "reason": "worker 1 died",
        "level": "warning", "logger": "penstock.spark",
    }  # fmt: skip
    dropped = of_events(found, "EpochDropped")
    assert [(line["query"], line["epoch"], line["attempt"], line["reason"], line["again"]) for line in dropped] == [
        ("busy-busy", 1, 1, "worker 1 died", True),
        ("busy-busy", 1, 2, "tasks disagree", True),
    ]
    assert {line["level"] for line in dropped} == {"warning"}
    assert of_events(found, "EpochCommitted")[0]["epoch"] == 1


def test_the_last_attempt_and_the_end_of_the_run_are_errors(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    failing(monkeypatch, lost(0), lost(0))
    result = run("busy.sql", "--attempts-per-epoch", "2", "--log-file", "x.jsonl", "--log-format", "json")
    assert result.exit_code == 1
    errors = [line for line in lines(folder / "x.jsonl") if line["level"] == "error"]
    dropped, failed, command = errors
    assert (dropped["event"], dropped["attempt"], dropped["again"]) == ("EpochDropped", 2, False)
    assert (failed["query"], failed["reason"]) == ("busy-busy", "worker 0 died")
    assert command["message"].startswith("run busy.sql failed: a task of epoch 1 failed repeatedly")


def test_an_error_stands_on_the_terminal_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    failing(monkeypatch, lost(0))
    result = run("busy.sql", "--attempts-per-epoch", "1", "--log-level", "info")
    assert result.stderr.count("a task of epoch 1 failed repeatedly") == 1
    assert "epoch 1, attempt 1 is dropped, the epoch is given up: worker 0 died" in result.stderr


def test_a_checkpoint_that_is_continued_is_logged(folder: Path) -> None:
    first = logged(folder, "--rows-per-epoch", "250", "--until", "2 epochs")
    assert not of_events(first, "RunRecovered")
    (recovered,) = of_events(logged(folder, "--rows-per-epoch", "250"), "RunRecovered")
    assert (recovered["query"], recovered["epoch"]) == ("busy-busy", 2)
    assert recovered["reason"] == "its checkpoint holds epoch 2"


def test_an_error_before_the_run_is_logged(folder: Path) -> None:
    result = run("nope.sql", "--log-file", "x.jsonl", "--log-format", "json")
    assert result.exit_code == 1
    last = lines(folder / "x.jsonl")[-1]
    assert (last["level"], last["reason"]) == ("error", "there is no such file")


@pytest.mark.parametrize(
    ("options", "code", "wanted"),
    [
        (("--log-file", "nowhere/x.log"), 1, "error: the log file nowhere/x.log cannot be opened"),
        (("--log-file", "."), 1, "Is a directory"),
        (("--log-level", "loud"), 2, "'loud' is not one of"),
        (("--log-format", "xml"), 2, "'xml' is not one of"),
    ],
)
def test_a_wrong_option_is_refused_before_anything_is_made(
    folder: Path, options: tuple[str, str], code: int, wanted: str
) -> None:
    result: Result = run("busy.sql", *options)
    assert result.exit_code == code
    assert wanted in result.stderr
    assert not (folder / ".penstock").exists()


def test_a_log_that_cannot_be_written_does_not_stop_the_run() -> None:
    result = run("busy.sql", "--log-file", "/dev/full")
    assert result.exit_code == 0
    assert result.stderr.count("warning: the log /dev/full cannot be written") == 1
    assert "Traceback" not in result.stderr


def test_a_query_of_the_command_line_is_logged_too(folder: Path) -> None:
    result = penstock("run", "-c", calls(rows=500) + COUNT, "--master", "inline", "--log-file", "x.log")
    assert result.exit_code == 0, result.stderr
    assert "epoch 1 is committed: 500 rows in" in (folder / "x.log").read_text()
