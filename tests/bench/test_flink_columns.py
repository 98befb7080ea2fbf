"""The input and the output of Flink as column files, and the parts of its SQL: all without Flink."""

from __future__ import annotations

from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.errors import ConfigError
from penstock_bench.flink.columns import COUNT, EXACT, create_table, read_table, write_table
from penstock_bench.flink.input import ensure_input
from penstock_bench.rows.data import ensure_data, marker_of
from penstock_bench.rows.streams import STREAMS
from penstock_bench.workload import SLACK_SECONDS
from penstock_bench.workloads.flink_text import near

COLUMNS = [("ts_us", "BIGINT"), ("k", "BIGINT"), ("n", "INT"), ("v", "DOUBLE"), ("s", "VARCHAR(2147483647)")]


def _rows(first: int, last: int) -> pa.Table:
    numbers = np.arange(first, last)
    times = pa.array(1_767_225_600_000_000 + numbers * 1_001).cast(pa.timestamp("us"))
    words = pa.array([("ß" * (number % 3)) + str(number) for number in numbers])
    return pa.table({"ts": times, "k": numbers, "n": numbers.astype(np.int32), "v": numbers / 7, "s": words})


def _stream(folder: Path) -> pa.Table:
    folder.mkdir()
    for file in range(3):
        pq.write_table(_rows(file * 10, file * 10 + 10), folder / f"{file:02d}.parquet")
    return _rows(0, 30)


def test_rows_are_dealt_to_the_parts_in_turn_and_come_back_as_they_were(tmp_path: Path) -> None:
    rows = _stream(tmp_path / "stream")
    write_table(tmp_path / "stream", tmp_path / "columns", parts=2)
    found = read_table(tmp_path / "columns", COLUMNS)
    dealt = rows.take(pa.array([*range(0, 30, 2), *range(1, 30, 2)]))
    assert found.to_pydict() == dealt.to_pydict()
    assert found.schema.field("ts").type == pa.timestamp("us")


def test_a_time_is_there_with_milliseconds_and_with_microseconds(tmp_path: Path) -> None:
    schema = _rows(0, 1).schema
    statement = create_table("a", schema, "ts", tmp_path)
    assert f"`ts` TIMESTAMP(3), `ts{EXACT}` BIGINT" in statement
    assert f"WATERMARK FOR `ts` AS `ts` - INTERVAL '{SLACK_SECONDS}' SECOND" in statement


def test_what_column_files_cannot_say_is_refused(tmp_path: Path) -> None:
    (tmp_path / "stream").mkdir()
    pq.write_table(pa.table({"k": pa.array([1, None])}), tmp_path / "stream" / "00.parquet")
    with pytest.raises(ConfigError, match="nulls"):
        write_table(tmp_path / "stream", tmp_path / "columns", parts=1)
    with pytest.raises(ConfigError, match="cannot be given"):
        create_table("a", pa.schema([("d", pa.date32())]), "d", tmp_path)


def test_a_result_with_rows_missing_is_refused(tmp_path: Path) -> None:
    _stream(tmp_path / "stream")
    write_table(tmp_path / "stream", tmp_path / "columns", parts=1)
    (tmp_path / "columns" / "0" / COUNT).write_text("31")
    with pytest.raises(ConfigError, match="not whole"):
        read_table(tmp_path / "columns", COLUMNS)


def test_streams_are_written_once_and_again_when_the_data_has_changed(tmp_path: Path) -> None:
    data = ensure_data(tmp_path / "data", 1_000, ("a",))
    folder = ensure_input(data, ("a",), 2)
    count = folder / "a" / "1" / COUNT
    assert count.read_text() == "500"
    count.write_text("as it was")
    ensure_input(data, ("a",), 2)
    assert count.read_text() == "as it was"
    marker_of(data, "a").write_bytes(b"another version")
    ensure_input(data, ("a",), 2)
    assert count.read_text() == "500"


def test_every_stream_can_be_given_to_flink(tmp_path: Path) -> None:
    for stream in STREAMS.values():
        statement = create_table(stream.name, stream.schema, stream.time, tmp_path)
        assert all(f"`{name}`" in statement for name in stream.schema.names)


def test_a_band_is_exact_although_event_time_has_milliseconds() -> None:
    """The condition on milliseconds must take every pair of the exact band, and the whole condition no other pair."""
    draw = np.random.default_rng(7)
    a = np.repeat(draw.integers(2_000_000, 10_000_000, 500), 4)
    b = a + draw.choice([-1_000_000, 3_000_000], len(a)) + draw.integers(-1_100, 1_100, len(a))
    pairs = pa.table({"a_us": a, "b_us": b})
    condition = near("b", "a", 1, 3)
    both = [f"(SELECT epoch_ms({name}_us // 1000) AS ts, {name}_us AS ts_us) AS {name}" for name in ("a", "b")]
    right, rounded, found = duckdb.sql(
        f"""SELECT list(b.ts_us BETWEEN a.ts_us - 1000000 AND a.ts_us + 3000000),
                list({_in_duckdb(condition.rpartition(" AND b.ts_us")[0])}), list({_in_duckdb(condition)})
            FROM pairs, LATERAL {both[0]}, LATERAL {both[1]}"""
    ).fetchall()[0]
    assert pairs.num_rows == len(right)
    assert 0 < sum(right) < len(right)
    assert found == right
    assert all(kept for kept, is_right in zip(rounded, right, strict=True) if is_right)
    assert sum(rounded) > sum(right)


def _in_duckdb(condition: str) -> str:
    """DuckDB takes fractions of a second only with the unit inside the quotes."""
    return condition.replace("' SECOND", " seconds'")
