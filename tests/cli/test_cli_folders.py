"""Sinks and settings of a script that name the same folder are refused before the first of its queries runs."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from cli_case import calls, run, to_files


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "link").symlink_to(tmp_path)
    return tmp_path


def _refused(folder: Path, *arguments: str) -> str:
    result = run("q.sql", *arguments)
    assert result.exit_code == 1
    assert "Traceback" not in result.output
    assert sorted(path.name for path in folder.iterdir()) == ["link", "q.sql"], "something has run"
    return " ".join(result.output.split())


@pytest.mark.parametrize("second", ["out", "./x/../out", "link/out", "{folder}/out", "out/"])
def test_two_sinks_into_one_folder_are_refused_before_anything_runs(second: str, folder: Path) -> None:
    sinks = to_files("one") + to_files("two", second.format(folder=folder))
    (folder / "q.sql").write_text(calls(rows=500) + sinks)
    said = _refused(folder)
    assert "the result rows of `two` would lie in the same folder as the result rows of `one`" in said
    assert str(folder / "out") in said


def test_a_sink_inside_the_folder_of_another_is_refused(folder: Path) -> None:
    (folder / "q.sql").write_text(calls(rows=500) + to_files("one") + to_files("two", "out/two"))
    assert "the result rows of `two` would lie inside the folder of the result rows of `one`" in _refused(folder)


@pytest.mark.parametrize("setting", ["late", "bad"])
def test_late_and_bad_rows_of_two_queries_need_two_folders(setting: str, folder: Path) -> None:
    (folder / "q.sql").write_text(calls(rows=500) + to_files("one") + to_files("two", "other"))
    said = _refused(folder, "--set", f"{setting}=rows")
    assert f"the {setting} rows of `two` would lie in the same folder as the {setting} rows of `one`" in said


def test_a_sink_in_the_checkpoint_of_another_query_is_refused(folder: Path) -> None:
    (folder / "q.sql").write_text(calls(rows=500) + to_files("one") + to_files("two", "ck/one/runs"))
    said = _refused(folder, "--checkpoint", "ck")
    assert "the result rows of `two` would lie inside the folder of the checkpoint of `one`" in said


def test_late_rows_into_the_results_are_refused(folder: Path) -> None:
    (folder / "q.sql").write_text(calls(rows=500) + to_files())
    assert "the late rows would lie in the same folder as the result rows" in _refused(folder, "--set", "late=out")
    assert run("q.sql").exit_code == 0


def test_a_query_may_follow_what_another_one_of_the_script_writes(folder: Path) -> None:
    (folder / "out").mkdir()
    second = """CREATE SOURCE counts (district BIGINT, window_start TIMESTAMP, n BIGINT, WATERMARK FOR window_start
    AS window_start)
    WITH (connector = 'files', path = 'out/*.parquet', follow = true);
    """
    sink = to_files("two", "other", "SELECT district, window_start, n FROM counts")
    (folder / "q.sql").write_text(calls(rows=500) + second + to_files("one") + sink)
    assert run("q.sql", "--until", "1s").exit_code == 0


@pytest.mark.parametrize("until", [["--until", "2 epochs"], []], ids=["half done", "finished"])
def test_results_that_were_removed_are_missed_at_the_next_start(until: list[str], folder: Path) -> None:
    (folder / "q.sql").write_text("SET rows_per_epoch = 2000;\n" + calls(rows=20_000) + to_files())
    assert run("q.sql", *until).exit_code == 0
    shutil.rmtree(folder / "out")
    result = run("q.sql")
    said = " ".join(result.output.split())
    assert result.exit_code == 1
    assert "the result rows that this query has published are missing" in said
    assert "on_missing_results = 'accept'" in said
    assert not (folder / "out").exists()
    assert run("q.sql", "--set", "on_missing_results=accept").exit_code == 0
    assert run("q.sql").exit_code == 0
