"""`penstock run --fresh`: what is deleted, and what is not."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli_case import COUNT, calls, last_json, run, to_files

from penstock.checkpoint.store import Checkpoint


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    Path("busy.sql").write_text(calls() + to_files())
    assert run("busy.sql").exit_code == 0
    return tmp_path


def test_another_query_begins_anew_and_only_its_results_are_there() -> None:
    before = set(Path("out").glob("*.parquet"))
    Path("out/mine.txt").write_text("not Penstock's")
    Path("busy.sql").write_text(calls(rows=2000) + to_files())
    result = run("busy.sql", "--fresh", "--yes", "--json")
    assert last_json(result)["rows_in"] == 2000
    assert before.isdisjoint(Path("out").glob("*.parquet"))
    assert Path("out/mine.txt").exists()
    assert f"deleted the checkpoint .penstock/busy-busy and {len(before)} file" in result.stderr


def test_nobody_can_be_asked() -> None:
    before = sorted(Path("out").iterdir())
    result = run("busy.sql", "--fresh")
    assert result.exit_code == 1
    assert "add --yes" in result.stderr
    assert sorted(Path("out").iterdir()) == before


def test_a_folder_that_is_no_checkpoint_is_not_deleted() -> None:
    Path("precious").mkdir()
    Path("precious/file").write_text("x")
    result = run("busy.sql", "--checkpoint", "precious", "--fresh", "--yes")
    assert (result.exit_code, Path("precious/file").exists()) == (1, True)
    assert "is not a checkpoint, so it is not deleted" in result.stderr


def test_a_checkpoint_in_use_is_not_deleted() -> None:
    held = Checkpoint.open(".penstock/busy-busy")
    try:
        result = run("busy.sql", "--fresh", "--yes")
    finally:
        held.close()
    assert (result.exit_code, "in use by another run" in result.stderr) == (1, True)
    assert list(Path("out").glob("*.parquet"))


def test_results_of_another_query_stay() -> None:
    (record,) = Path("out/_penstock").glob("published-*")
    record.write_text("somebody-else")
    before = sorted(Path("out").glob("*.parquet"))
    run("busy.sql", "--fresh", "--yes")
    assert sorted(Path("out").glob("*.parquet")) == before


def test_the_difference_of_two_queries_is_shown_line_by_line() -> None:
    Path("busy.sql").write_text(calls() + to_files(query=COUNT.replace("'1' SECOND", "'3' SECOND")))
    refused = run("busy.sql").stderr
    assert "\n  - subquery 0: aggregate by district, tumbling 1s\n" in refused
    assert "\n  + subquery 0: aggregate by district, tumbling 3s\n" in refused
    Path("busy.sql").write_text(calls(more=", seed = 7") + to_files())
    refused = run("busy.sql").stderr
    assert '- "seed": 0' in refused
    assert '+ "seed": 7' in refused
