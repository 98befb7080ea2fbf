"""Input that is not what it should be: each has an answer in words, and malformed rows can be sent elsewhere."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest

import penstock as ps
from penstock.api.streams import Stream
from penstock.errors import BadRowError, ConfigError, QueryError

TIMESTAMP = pa.timestamp("us")


def run(stream: Stream, **settings: object) -> pa.Table:
    running = stream.to.memory().start(master="inline", **settings)  # type: ignore[arg-type]
    running.wait()
    return running.result()


def bad_rows(checkpoint: Path) -> list[dict[str, object]]:
    return pa.concat_tables(
        [pq.read_table(path) for path in sorted((checkpoint / "bad").glob("*.parquet"))]
    ).to_pylist()


@pytest.mark.parametrize("time", [2**63 - 1, -(2**63)])
def test_a_timestamp_at_its_limit_is_a_bad_row_of_a_window(tmp_path, time):
    table = pa.table({"ts": pa.array([time, 5_000_000], pa.int64()).cast(TIMESTAMP), "v": [1, 2]})
    pq.write_table(table, tmp_path / "a.parquet")
    counts = ps.read.files(str(tmp_path / "a.parquet"), time="ts").window(ps.tumbling("10s")).agg(n=ps.count())
    with pytest.raises(BadRowError, match=r"a\.parquet") as error:
        run(counts)
    assert "too near the limits of its type" in error.value.detail
    assert run(counts, on_bad_row="divert", checkpoint=str(tmp_path / "_c"))["n"].to_pylist() == [1]
    (bad,) = bad_rows(tmp_path / "_c")
    assert str(time) in str(bad["text"])


def test_a_timestamp_beyond_the_calendar_is_shown_on_the_terminal(tmp_path, capfd):
    rows = pa.table({"ts": pa.array([2**62], pa.int64()).cast(TIMESTAMP), "v": [7]})
    ps.read.table(rows, time="ts").to.terminal().start(master="inline").wait()
    assert "7" in capfd.readouterr().out


def not_utf8() -> pa.Table:
    names = pa.array([b"a", b"\xff!", b"c"]).view(pa.string())
    lists = pa.ListArray.from_arrays([0, 1, 2, 3], pa.array([b"x", b"y", b"\xfe"]).view(pa.string()))
    return pa.table({"ts": [1, 2, 3], "name": names, "tags": lists})


@pytest.mark.parametrize("kind", ["parquet", "arrow", "memory"])
def test_text_that_is_not_utf8_names_the_file_and_can_be_diverted(tmp_path, kind):
    path = tmp_path / f"a.{kind}"
    match kind:
        case "parquet":
            pq.write_table(not_utf8(), path)
        case "arrow":
            feather.write_feather(not_utf8(), path, compression="uncompressed")
    source = ps.read.table(not_utf8(), time="ts") if kind == "memory" else ps.read.files(str(path), time="ts")
    upper = source.select("ts", big=ps.call("upper", ps.col("name")))
    with pytest.raises(BadRowError, match="batch 0" if kind == "memory" else rf"a\.{kind}") as error:
        run(upper)
    assert "`name` is not UTF-8" in error.value.detail
    assert run(upper, on_bad_row="divert", checkpoint=str(tmp_path / "_c"))["big"].to_pylist() == ["A", "C"]
    (bad,) = bad_rows(tmp_path / "_c")
    assert (bad["line"], bad["reason"]) == (2, "`name` is not UTF-8")
    assert "\\xff!" in str(bad["text"]).replace("\\\\", "\\")
    tags = source.select("ts", first=ps.call("array_extract", ps.col("tags"), 1))
    assert run(tags, on_bad_row="divert")["first"].to_pylist() == ["x", "y"]


@pytest.mark.parametrize("substreams", ["one", "files"])
@pytest.mark.parametrize("kind", ["csv", "jsonl", "csv.gz", "parquet", "arrow"])
def test_files_whose_names_are_not_utf8_are_read_and_named(tmp_path, kind, substreams):
    import gzip

    folder, table = tmp_path / "in", pa.table({"ts": [1, 2, 3], "v": [1, 2, None]})
    folder.mkdir()
    plain = folder / f"plain.{kind}"
    match kind:
        case "csv":
            plain.write_text("ts,v\n1,1\n2,2\n3,\nx,4\n")
        case "csv.gz":
            plain.write_bytes(gzip.compress(b"ts,v\n1,1\n2,2\n3,\nx,4\n"))
        case "jsonl":
            plain.write_text('{"ts":1,"v":1}\n{"ts":2,"v":2}\n{"ts":3}\n{"ts":"x","v":4}\n')
        case "parquet":
            pq.write_table(table, plain)
        case "arrow":
            feather.write_feather(table, plain, compression="uncompressed")
    os.rename(os.fsencode(plain), os.fsencode(folder) + b"/a\xff." + kind.encode())
    stream = ps.read.files(str(folder), time="ts", schema={"ts": "BIGINT", "v": "BIGINT"}, substreams=substreams)
    found = run(stream, on_bad_row="divert", rows_per_epoch=1, checkpoint=str(tmp_path / "_c"))
    assert sorted(found.to_pylist(), key=lambda row: row["ts"]) == table.to_pylist()
    if kind not in ("parquet", "arrow"):
        assert bad_rows(tmp_path / "_c")[0]["file"] == f"{folder}/a\\xff.{kind}"
        with pytest.raises(BadRowError, match=r"a\\xff\."):
            run(stream)


def test_a_path_that_is_not_utf8_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"a\\xff` is not UTF-8"):
        ps.read.files(str(tmp_path / os.fsdecode(b"a\xff")), time="ts", schema={"ts": "BIGINT"})


def test_a_time_that_is_not_one_column_is_refused_at_the_users_line():
    rows = pa.table({"ts": [1], "v": [2]})
    with pytest.raises(QueryError, match=r"the time of source `table` is one column, not \('ts', 'v'\)") as error:
        ps.read.table(rows, time=("ts", "v"))  # type: ignore[arg-type]
    assert "test_odd_inputs.py, line" in error.value.detail
    assert error.value.hint


@pytest.mark.parametrize(
    ("call", "what", "meant"),
    [
        (lambda: ps.read.files("x", time="ts", folow=True), "ps.read.files has no argument `folow`", "`follow`"),
        (lambda: ps.read.files("x", tiem="ts"), "ps.read.files has no argument `tiem`", "`time`"),
        (lambda: ps.read.files("x", time="ts", shema={}), "ps.read.files has no argument `shema`", "`schema`"),
        (lambda: ps.read.table([], time="ts", nam="x"), "ps.read.table has no argument `nam`", "`name`"),
        (lambda: ps.read.calls(rowz=5), "ps.read.calls has no argument `rowz`", "`rows`"),
        (lambda: ps.read.files("x"), "ps.read.files needs the argument `time`", "time=..."),
        (lambda: ps.read.files("x", "ts"), "ps.read.files takes 1 arguments without a name, not 2", "time=..."),
    ],
)
def test_a_misspelt_argument_is_refused_with_the_one_meant_at_the_users_line(call, what, meant):
    with pytest.raises(ConfigError) as error:
        call()
    assert error.value.what == what
    assert meant in error.value.hint
    assert "test_odd_inputs.py, line" in error.value.detail
    assert "ps.read." in error.value.detail
