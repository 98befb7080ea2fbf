"""Malformed input: the run stops and says where, or such rows are diverted; no other row is lost either way."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import penstock as ps
from penstock.errors import BadRowError, SourceError
from penstock.progress.mark import MAX_TIME

SCHEMA = {"ts": "TIMESTAMP", "k": "BIGINT", "v": "DOUBLE"}


def csv(tmp_path: Path) -> str:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a.csv").write_text(
        "ts,k,v\n2026-01-01 00:00:01,1,1.5\n2026-01-01 00:00:02,x,2.5\n2026-01-01 00:00:03,1\n2026-01-01 00:00:04,1,4\n"
    )
    return str(folder / "*.csv")


def query(path: str) -> ps.Stream:
    rows = ps.read.files(path, time="ts", schema=SCHEMA)
    return rows.group_by("k").window(ps.tumbling("10s")).agg(n=ps.count(), s=ps.sum("v"))


def test_by_default_the_run_stops_and_names_file_and_line(tmp_path: Path) -> None:
    run = query(csv(tmp_path)).to.memory().start(str(tmp_path / "ck"), master="inline")
    with pytest.raises(BadRowError) as caught:
        run.wait()
    assert "a.csv, line 3" in caught.value.what
    assert "`k`: 'x' is not a BIGINT" in caught.value.detail
    assert "divert" in caught.value.hint
    assert run.progress.state == "failed"


def test_diverted_rows_are_kept_with_their_reason_and_the_rest_is_computed(tmp_path: Path) -> None:
    ready = query(csv(tmp_path)).to.memory()
    run = ready.start(str(tmp_path / "ck"), master="inline", on_bad_row="divert", bad=str(tmp_path / "bad")).wait()
    assert run.result().select(["k", "n", "s"]).to_pylist() == [{"k": 1, "n": 2, "s": 5.5}]
    assert run.bad.column("line").to_pylist() == [3, 4]
    assert run.progress.bad_rows == 2
    assert run.progress.rows_in == 4
    assert list((tmp_path / "bad").glob("*.parquet"))


def test_a_stopped_run_goes_on_once_the_row_is_fixed(tmp_path: Path) -> None:
    path = csv(tmp_path)
    with pytest.raises(BadRowError):
        query(path).to.files(str(tmp_path / "out")).start(str(tmp_path / "ck"), master="inline").wait()
    file = tmp_path / "in" / "a.csv"
    file.write_text(file.read_text().replace(",x,", ",1,").replace("03,1\n", "03,1,3\n"))
    run = query(path).to.files(str(tmp_path / "out")).start(str(tmp_path / "ck"), master="inline").wait()
    assert run.progress.rows_out == 1


@pytest.mark.parametrize("time", [MAX_TIME, -MAX_TIME])
def test_a_time_too_near_the_limits_for_its_windows_is_a_bad_row(time: int, tmp_path: Path) -> None:
    rows = pa.table({"ts": pa.array([0, time], pa.int64())})
    ready = ps.read.table(rows, time="ts").window(ps.tumbling(10)).agg(n=ps.count()).to.memory()
    with pytest.raises(BadRowError, match="malformed row"):
        ready.start(master="inline").wait()
    run = ready.start(str(tmp_path / "ck"), master="inline", on_bad_row="divert").wait()
    assert run.result().column("n").to_pylist() == [1]
    assert "too near the limits" in run.bad.column("reason").to_pylist()[0]


def test_a_missing_file_is_an_error_before_anything_runs(tmp_path: Path) -> None:
    with pytest.raises(SourceError) as caught:
        ps.read.files(str(tmp_path / "none/*.parquet"), time="ts")
    assert caught.value.hint
