"""Ad-hoc queries: SQL on the command line, on stdin, or in a script without a sink."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from cli_case import COUNT, calls, last_json, penstock, to_files
from typer.testing import CliRunner

from penstock.cli.main import app

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
    assert "in process; --master local[*] runs it on Spark" in result.stderr
    assert re.search(r"finished in process after 1 epoch and \d+\.\d s \(\d+\.\d s to start\)", result.stderr)


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


def test_a_run_ends_with_the_first_rows_of_its_result() -> None:
    Path("busy.sql").write_text(calls(more=START) + to_files())
    first = penstock("run", "busy.sql", "--master", "inline", "--until", "1 epochs", "--set", "rows_per_epoch=3000")
    again = penstock("run", "busy.sql", "--master", "inline")
    assert "first rows" in first.stderr
    shown, later = cells(first.stderr), cells(again.stderr)
    assert len(shown) == len(later) == 5
    assert set(shown).isdisjoint(later), "those of this run, not of the one before"
