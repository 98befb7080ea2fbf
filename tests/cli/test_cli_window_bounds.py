"""Windows whose panes cannot fit are refused with the numbers, before anything runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli_case import calls, penstock, run, to_files

import penstock as ps
from penstock.errors import QueryError


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def refused(query: str) -> str:
    Path("busy.sql").write_text(calls(rows=10) + to_files(query=query))
    result = run("busy.sql")
    assert result.exit_code == 1
    assert not Path("out").exists()
    return result.stderr


def test_a_day_by_a_microsecond_is_refused_with_the_numbers() -> None:
    hop = "HOP(calls, ts, INTERVAL '0.000001' SECOND, INTERVAL '1' DAY)"
    said = refused(f"SELECT window_start, count(*) AS n FROM {hop} GROUP BY 1")
    assert "every row would be in 86,400,000,000 windows of 1d every 1us" in said
    assert "each of them gives a result, and at most 67,108,864 are possible" in said
    assert "use a slide of at least 1288us, or a smaller size" in said


def test_rows_that_are_copied_to_their_windows_have_a_lower_bound() -> None:
    said = refused("SELECT * FROM HOP(calls, ts, INTERVAL '0.001' SECOND, INTERVAL '1' DAY)")
    assert "every row would be in 86,400,000 windows of 1d every 1ms" in said
    assert "the row is copied to each of them, and at most 1,048,576 are possible" in said


def test_windows_of_rows_are_refused_too() -> None:
    rows = ps.read.batches([[{"ts": 1}]], time="ts")
    with pytest.raises(QueryError, match="1,000,000,000,000 windows"):
        rows.window(ps.rows(10**12, every=1)).agg(n=ps.count()).to.memory().explain()


def test_a_year_by_a_second_is_allowed() -> None:
    year = "SELECT window_start, count(*) AS n FROM HOP(calls, ts, INTERVAL '1' SECOND, INTERVAL '365' DAY) GROUP BY 1"
    Path("busy.sql").write_text(calls(rows=10) + to_files(query=year))
    assert penstock("explain", "busy.sql").exit_code == 0
