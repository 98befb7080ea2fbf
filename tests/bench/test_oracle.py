"""The batch answers are the naive ones, and what is wrong with a result is found."""

from __future__ import annotations

import math
from collections import defaultdict
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from penstock.types import time_values
from penstock_bench.check.oracle import batch_answer, closed_by_watermark, equal, session
from penstock_bench.rows.data import ensure_data
from penstock_bench.rows.stream import SECOND
from penstock_bench.workload import Workload
from penstock_bench.workloads import WORKLOADS

ROWS = 2_000
BAND = 5 * SECOND
Row = tuple[object, ...]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Keys out of 40, so that small joins have results; otherwise as the benchmark writes it."""
    folder = ensure_data(tmp_path_factory.mktemp("data"), ROWS, ("a", "b", "c"))
    for path in folder.rglob("*.parquet"):
        rows = pq.read_table(path)
        pq.write_table(rows.set_column(1, "k", pa.array(rows["k"].to_numpy() % 40)), path)
    return folder


def answer(workload: Workload, data: Path) -> pa.Table:
    with session() as connection:
        return batch_answer(connection, workload, data).to_arrow_table()


def rows_of(data: Path, stream: str) -> list[tuple[int, int, float]]:
    table = pq.read_table(data / stream)
    return list(zip(time_values(table["ts"]).tolist(), table["k"].to_pylist(), table["v"].to_pylist(), strict=True))


def found_rows(workload: Workload, table: pa.Table) -> list[Row]:
    """The identity columns, times as microseconds, sorted."""
    columns = [
        time_values(table[name]).tolist() if pa.types.is_timestamp(table[name].type) else table[name].to_pylist()
        for name in workload.identity
    ]
    return sorted(zip(*columns, strict=True))


def windows_by_hand(data: Path, size: int, slide: int, keys: int) -> dict[tuple[int, int], list[float]]:
    """Every row is put into every window: no panes, no SQL."""
    found: dict[tuple[int, int], list[float]] = defaultdict(list)
    for ts, k, v in rows_of(data, "a"):
        for start in range(ts - ts % slide, ts - size, -slide):
            found[k % keys, start].append(v)
    return found


@pytest.mark.parametrize(
    ("name", "size", "slide", "keys"), [("tumble", 10, 10, 100_000), ("slide", 60, 1, 100)], ids=["tumble", "slide"]
)
def test_windows_are_the_naive_ones(data: Path, name: str, size: int, slide: int, keys: int) -> None:
    expected, got = windows_by_hand(data, size * SECOND, slide * SECOND, keys), answer(WORKLOADS[name], data)
    starts = time_values(got["window_start"]).tolist()
    rows = {
        (k, start): (n, s)
        for k, start, n, s in zip(got["k"].to_pylist(), starts, got["n"].to_pylist(), got["s"].to_pylist(), strict=True)
    }
    assert len(rows) == got.num_rows == len(expected)
    assert all(n == len(expected[row]) and math.isclose(s, math.fsum(expected[row])) for row, (n, s) in rows.items())


def test_distinct_rows_are_the_naive_ones(data: Path) -> None:
    expected = sorted({(k, ts - ts % (10 * SECOND)) for ts, k, _ in rows_of(data, "a")})
    assert found_rows(WORKLOADS["distinct"], answer(WORKLOADS["distinct"], data)) == expected


def test_joins_are_the_naive_ones(data: Path) -> None:
    a, b, c = (rows_of(data, stream) for stream in "abc")
    near = [(x, y) for x in a for y in b if x[1] == y[1] and abs(x[0] - y[0]) <= BAND]
    star = [(x, y, z) for x, y in near for z in c if x[1] == z[1] and abs(x[0] - z[0]) <= BAND]
    theta = [(x, y) for x in a for y in b if y[2] > x[2] + 90 and abs(x[0] - y[0]) <= SECOND]
    expected: dict[str, list[Row]] = {
        "band": [(x[1], x[0], y[0], x[2], y[2]) for x, y in near],
        "three-way": [(x[1], x[0], y[0], z[0], x[2], y[2], z[2]) for x, y, z in star],
        "theta": [(x[1], y[1], x[0], y[0], x[2], y[2]) for x, y in theta],
    }
    for name, rows in expected.items():
        assert len(rows) > 20
        assert found_rows(WORKLOADS[name], answer(WORKLOADS[name], data)) == sorted(rows)


def test_a_wide_join_carries_all_columns(tmp_path: Path) -> None:
    data = ensure_data(tmp_path, 20_000, ("a", "wide"))
    got = answer(WORKLOADS["wide"], data)
    assert got.num_rows > 20
    assert set(WORKLOADS["wide"].identity) == set(got.column_names)
    assert len(got.column_names) == 52  # those of wide, and the other time and value
    wide = pq.read_table(data / "wide")
    one = got.slice(7, 1).to_pylist()[0]
    (origin,) = wide.filter(pc.equal(wide["s19"], one["s19"])).to_pylist()
    assert {name: one[name] for name in origin} == origin


@pytest.mark.parametrize(("name", "size"), [("tumble", 10), ("slide", 60), ("distinct", 10)])
def test_open_windows_belong_to_the_answer_only_when_all_are_closed(
    data: Path, tmp_path: Path, name: str, size: int
) -> None:
    workload = WORKLOADS[name]
    table, mark = answer(workload, data), closed_by_watermark(workload, data)
    ends = time_values(table["window_start"]) + size * SECOND
    result, everything = tmp_path / "closed", tmp_path / "all"
    save(table.filter(pa.array(ends <= mark)), result)
    save(table, everything)
    assert equal(result, workload, data, mark).equal
    assert not equal(result, workload, data).equal
    assert equal(everything, workload, data).equal
    assert not equal(everything, workload, data, mark).equal


def test_the_watermark_is_behind_the_stream_that_is_furthest_behind(data: Path, tmp_path: Path) -> None:
    largest = [max(rows_of(data, stream))[0] for stream in "abc"]
    assert 0 <= min(largest) - 2 * SECOND - closed_by_watermark(WORKLOADS["three-way"], data) < 1000
    assert 0 <= largest[0] - 2 * SECOND - closed_by_watermark(WORKLOADS["tumble"], data) < 1000


def test_a_join_does_not_wait_for_the_watermark(data: Path, tmp_path: Path) -> None:
    save(answer(WORKLOADS["band"], data), tmp_path / "r")
    assert equal(tmp_path / "r", WORKLOADS["band"], data, 0).equal


def test_a_result_without_files_is_wrong(data: Path, tmp_path: Path) -> None:
    compared = equal(tmp_path, WORKLOADS["tumble"], data)
    assert (compared.equal, compared.detail) == (False, "no result files")


def test_texts_are_asked_over_the_streams_that_are_named() -> None:
    """A stream that a text does not name would be generated for nothing."""
    for workload in WORKLOADS.values():
        for text in (workload.duckdb, workload.penstock):
            words = set(text.replace("(", " ").replace(")", " ").replace(",", " ").replace(".", " ").split())
            assert set(workload.streams) <= words, workload.name


def save(table: pa.Table, folder: Path) -> None:
    half = table.num_rows // 2
    folder.mkdir()
    pq.write_table(table.slice(0, half), folder / "0.parquet")
    pq.write_table(table.slice(half), folder / "1.parquet")
