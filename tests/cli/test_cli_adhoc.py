"""Ad-hoc queries: SQL on the command line, on stdin, or in a script without a sink."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from cli_case import COUNT, calls, last_json, penstock, to_files
from typer.testing import CliRunner

from penstock.cli.main import app
from penstock.cli.summary import _seconds

START = ", start = '2024-01-31 12:00:00'"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.delenv("PENSTOCK_MASTER", raising=False)
    return tmp_path


def cells(text: str) -> list[tuple[str, ...]]:
    """The rows of the tables in a text."""
    return [tuple(c.strip() for c in line.strip("│").split("│")) for line in text.splitlines() if line.startswith("│")]


def test_sql_on_the_command_line_shows_all_its_rows_in_one_table_and_can_be_run_again() -> None:
    sql = calls(rows=3000, more=START) + COUNT
    first = penstock("run", "-c", sql, "--set", "rows_per_epoch=500")
    assert first.exit_code == 0, first.output
    rows = cells(first.stdout)
    assert sum(int(n) for _, _, n in rows) == 3000
    assert rows == sorted(rows)
    assert first.stdout.count("window_start") == 1
    again = penstock("run", "-c", sql)
    assert cells(again.stdout) == rows
    assert not Path(".penstock").exists()
    assert "checkpoint" not in first.stderr


def test_sql_from_stdin() -> None:
    result = CliRunner().invoke(app, ["run", "-"], input=calls(rows=500, more=START) + COUNT)
    assert result.exit_code == 0, result.output
    assert sum(int(n) for _, _, n in cells(result.stdout)) == 500


def test_an_ad_hoc_query_runs_in_process_and_says_so() -> None:
    result = penstock("run", "-c", calls(rows=100) + COUNT)
    assert result.stderr.splitlines()[-1] == "  on Spark    with --master local[*]"
    assert re.search(r"finished in process after [\d.]+ s: [\d.]+ s to start, 1 epoch in [\d.]+ s, ", result.stderr)


def test_whoever_has_chosen_a_master_is_not_told_of_another(monkeypatch: pytest.MonkeyPatch) -> None:
    sql = calls(rows=100) + COUNT
    for arguments in (["--master", "inline"], ["--set", "master=inline"]):
        assert "--master" not in penstock("run", "-c", sql, *arguments).stderr
    assert "--master" not in penstock("run", "-c", f"SET master = 'inline'; {sql}").stderr
    monkeypatch.setenv("PENSTOCK_MASTER", "inline")
    assert "--master" not in penstock("run", "-c", sql).stderr


def test_an_error_of_an_ad_hoc_query_stands_alone() -> None:
    Path("bad.csv").write_text("ts,n\n1,x\n")
    source = "CREATE SOURCE s (ts BIGINT, n BIGINT, WATERMARK FOR ts AS ts) WITH (connector = 'files', path = '{}');\n"
    for path, told in (("bad.csv", "malformed row"), ("none/*.csv", "error: ")):
        result = penstock("run", "-c", source.format(path) + "SELECT n FROM s")
        assert result.exit_code == 1, result.output
        assert told in result.stderr.splitlines()[0]
        assert "--master" not in result.stderr


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(0, "0 s"), (0.0134, "0.013 s"), (0.5, "0.5 s"), (0.999, "1 s"), (1.04, "1.0 s"), (75.26, "75.3 s")],
)
def test_seconds_have_the_digits_that_matter(seconds: float, shown: str) -> None:
    assert _seconds(seconds) == shown


def test_the_age_of_a_process_is_not_more_than_the_time_since_it_was_started() -> None:
    """Nor less than the time that it has worked; but for a tick of the clock."""
    code = (
        "import time; began = time.monotonic()\n"
        "from penstock.cli.running import _age_of_process\n"
        "worked = time.monotonic() - began; print(_age_of_process(), worked)"
    )
    before = time.monotonic()
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    passed, (age, worked) = time.monotonic() - before, map(float, printed.split())
    assert worked - 0.02 < age < passed + 0.02


def test_more_rows_than_are_shown_are_counted() -> None:
    result = penstock("run", "-c", calls(rows=3000, more=START) + COUNT, "--rows", "2")
    assert len(cells(result.stdout)) == 2
    assert re.search(r"the first 2 of \d+ rows; --rows N shows more", result.stdout)


def test_a_checkpoint_that_is_named_is_kept() -> None:
    result = penstock("run", "-c", calls(rows=100) + COUNT, "--checkpoint", "ck", "--json")
    assert last_json(result)["checkpoint"] == str(Path.cwd() / "ck")
    assert "this query has finished" in penstock("run", "-c", calls(rows=100) + COUNT, "--checkpoint", "ck").stderr


def test_rows_of_input_that_goes_on_are_shown_as_they_come() -> None:
    sql = calls(more=", realtime = true").replace("rows = 5000, ", "") + "SELECT district, ts FROM calls"
    result = penstock("run", "-c", sql, "--master", "inline", "--until", "3 epochs", "--epoch", "20ms")
    assert result.exit_code == 0, result.output
    assert len(re.findall(r"^epoch \d+", result.stdout, re.MULTILINE)) >= 1


def test_a_module_is_run_by_the_name_of_a_stream() -> None:
    Path("mod.py").write_text(
        "import penstock as ps\n"
        "calls = ps.read.calls(rows=10)\n"
        "long, short = calls.split(ps.col('duration') > 60)\n"
        "result = calls.to.memory().start(master='inline').wait()\n"
        "raise SystemExit('this module must not be run')\n"
    )
    result = penstock("run", "mod.py")
    assert result.exit_code == 1
    assert "`mod.py` is a Python module, not a SQL script" in result.stderr
    assert "streams in it: calls, long, short\n" in result.stderr
    assert "penstock run mod:calls" in result.stderr


def test_a_script_and_a_command_together_are_refused() -> None:
    result = penstock("run", "busy.sql", "-c", "SELECT 1")
    assert (result.exit_code, "cannot be run together" in result.stderr) == (1, True)
    assert "there is nothing to run" in penstock("run").stderr


def test_a_run_ends_with_some_rows_of_its_result() -> None:
    Path("busy.sql").write_text(calls(more=START) + to_files())
    first = penstock("run", "busy.sql", "--master", "inline", "--until", "1 epochs", "--set", "rows_per_epoch=3000")
    again = penstock("run", "busy.sql", "--master", "inline")
    assert "some of the rows\n" in first.stderr
    shown, later = cells(first.stderr), cells(again.stderr)
    assert len(shown) == len(later) == 5
    assert set(shown).isdisjoint(later), "those of this run, not of the one before"
