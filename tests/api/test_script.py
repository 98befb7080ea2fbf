from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from penstock.api.script import read_script
from penstock.errors import BadRowError, ConfigError

SCRIPT = """
CREATE SOURCE rows (ts TIMESTAMP, k BIGINT, WATERMARK FOR ts AS ts)
  WITH (connector = 'files', path = '{folder}/*.csv'{more});
CREATE SINK counts WITH (connector = 'files', path = '{folder}/out') AS
SELECT window_start, count(*) AS n FROM TUMBLE(rows, ts, INTERVAL '10' SECOND) GROUP BY window_start;
"""


def script(folder: Path, more: str = "") -> str:
    (folder / "a.csv").write_text("ts,k\n2026-01-01 00:00:01,1\n2026-01-01 00:00:02,x\n")
    return SCRIPT.format(folder=folder, more=more)


def test_a_source_may_say_what_happens_to_its_malformed_rows(tmp_path: Path) -> None:
    found = read_script(script(tmp_path, ", on_bad_row = 'divert'"))
    run = found.queries[0].ready.start(str(tmp_path / "ck"), master="inline", **found.settings).wait()
    assert run.progress.bad_rows == 0  # `k` is not read by the query, so its value is no matter
    assert pq.read_table(tmp_path / "out").column("n").to_pylist() == [2]


def test_diverted_rows_of_a_script_are_counted(tmp_path: Path) -> None:
    found = read_script(script(tmp_path, ", on_bad_row = 'divert'").replace("count(*)", "sum(k)"))
    run = found.queries[0].ready.start(str(tmp_path / "ck"), master="inline", **found.settings).wait()
    assert run.progress.bad_rows == 1
    assert pq.read_table(tmp_path / "out").column("n").to_pylist() == [1]


def test_without_a_word_the_run_stops(tmp_path: Path) -> None:
    found = read_script(script(tmp_path).replace("count(*)", "sum(k)"))
    with pytest.raises(BadRowError, match=r"a\.csv, line 3"):
        found.queries[0].ready.start(str(tmp_path / "ck"), master="inline", **found.settings).wait()


def test_set_is_stronger_than_the_source(tmp_path: Path) -> None:
    text = "SET on_bad_row = 'stop';" + script(tmp_path, ", on_bad_row = 'divert'")
    assert read_script(text).settings["on_bad_row"] == "stop"


def test_an_unknown_way_with_malformed_rows_is_refused(tmp_path: Path) -> None:
    found = read_script(script(tmp_path, ", on_bad_row = 'ignore'"))
    with pytest.raises(ConfigError, match="on_bad_row"):
        found.queries[0].ready.start(str(tmp_path / "ck"), master="inline", **found.settings)
