from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from penstock.bench.data import ensure_data
from penstock.bench.oracle import batch_answer, closed_by_watermark, equal, session
from penstock.bench.workloads import WORKLOADS, Workload
from penstock.schema import time_values

ROWS = 20_000
SECOND = 1_000_000
Change = Callable[[pa.Table], pa.Table]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return ensure_data(tmp_path_factory.mktemp("data"), ROWS)


@pytest.fixture(params=sorted(WORKLOADS))
def workload(request: pytest.FixtureRequest) -> Workload:
    return WORKLOADS[request.param]


def answer(workload: Workload, data: Path) -> pa.Table:
    with session() as connection:
        return batch_answer(connection, workload, data).to_arrow_table()


def save(table: pa.Table, folder: Path) -> Path:
    half = table.num_rows // 2
    folder.mkdir(exist_ok=True)
    pq.write_table(table.slice(0, half), folder / "0.parquet")
    pq.write_table(table.slice(half), folder / "1.parquet")
    return folder


def naive_answer(workload: Workload, data: Path) -> dict[tuple[int, int], list[float]]:
    """Every row is put into every window by hand: no panes, no SQL."""
    query, rows = workload.query, pq.read_table(data / "a")
    size, slide = query.size * SECOND, query.slide * SECOND
    found: dict[tuple[int, int], list[float]] = defaultdict(list)
    columns = zip(time_values(rows["ts"]).tolist(), rows["k"].to_pylist(), rows["v"].to_pylist(), strict=True)
    for ts, k, v in columns:
        key = k if query.key_modulo is None else k % query.key_modulo
        for start in range(ts - ts % slide, ts - size, -slide):
            found[key, start].append(v)
    return found


def test_the_batch_answer_is_the_naive_one(workload: Workload, data: Path) -> None:
    expected, got = naive_answer(workload, data), answer(workload, data)
    starts = time_values(got["window_start"]).tolist()
    rows = {
        (k, start): (n, s)
        for k, start, n, s in zip(got["k"].to_pylist(), starts, got["n"].to_pylist(), got["s"].to_pylist(), strict=True)
    }
    assert len(rows) == got.num_rows == len(expected)
    assert all(n == len(expected[row]) and math.isclose(s, math.fsum(expected[row])) for row, (n, s) in rows.items())


def test_the_answer_equals_itself_in_any_order(workload: Workload, data: Path, tmp_path: Path) -> None:
    table = answer(workload, data)
    shuffled = table.take(np.random.default_rng(3).permutation(table.num_rows))
    assert equal(save(shuffled, tmp_path / "r"), workload, data) == (
        True,
        f"{table.num_rows} rows right, 0 missing, 0 extra, 0 wrong",
    )


def with_column(table: pa.Table, name: str, change: Callable[[np.ndarray], np.ndarray]) -> pa.Table:
    values = change(table[name].to_numpy().copy())
    return table.set_column(table.schema.get_field_index(name), name, pa.array(values))


def first(factor: float) -> Callable[[np.ndarray], np.ndarray]:
    def change(values: np.ndarray) -> np.ndarray:
        values[0] = values[0] * factor
        return values

    return change


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        pytest.param(lambda t: t.slice(1), "1 missing, 0 extra, 0 wrong", id="missing row"),
        pytest.param(lambda t: pa.concat_tables([t, t.slice(5, 1)]), "0 missing, 1 extra, 0 wrong", id="doubled row"),
        pytest.param(
            lambda t: pa.concat_tables([t.slice(1), t.slice(5, 1)]), "1 missing, 1 extra, 0 wrong", id="one for another"
        ),
        pytest.param(lambda t: with_column(t, "n", first(2)), "0 missing, 0 extra, 1 wrong", id="wrong count"),
        pytest.param(lambda t: with_column(t, "s", first(1 + 1e-8)), "0 missing, 0 extra, 1 wrong", id="wrong sum"),
        pytest.param(
            lambda t: with_column(t, "s", first(float("nan"))), "0 missing, 0 extra, 1 wrong", id="sum not a number"
        ),
        pytest.param(lambda t: with_column(t, "k", first(-1) if t["k"][0].as_py() else first(1)), "", id="wrong key"),
        pytest.param(lambda t: t.slice(0, 0), "0 rows right", id="no rows"),
    ],
)
def test_what_is_wrong_is_found(workload: Workload, data: Path, tmp_path: Path, change: Change, complaint: str) -> None:
    table = answer(workload, data).sort_by([("k", "descending"), ("window_start", "ascending")])
    right, detail = equal(save(change(table), tmp_path / "r"), workload, data)
    assert not right
    assert complaint in detail


def test_a_null_sum_is_wrong(workload: Workload, data: Path, tmp_path: Path) -> None:
    table = answer(workload, data)
    nulled = pc.if_else(pa.array(np.arange(table.num_rows) == 7), pa.scalar(None, pa.float64()), table["s"])
    changed = table.set_column(table.schema.get_field_index("s"), "s", nulled)
    assert equal(save(changed, tmp_path / "r"), workload, data)[1].endswith("1 wrong")


def test_sums_may_differ_by_rounding(workload: Workload, data: Path, tmp_path: Path) -> None:
    rounded = with_column(answer(workload, data), "s", lambda values: values * (1 + 1e-12))
    assert equal(save(rounded, tmp_path / "r"), workload, data)[0]


def test_times_with_a_zone_are_the_same_times(workload: Workload, data: Path, tmp_path: Path) -> None:
    table = answer(workload, data)
    zoned = table["window_start"].cast(pa.timestamp("us", tz="UTC"))
    changed = table.set_column(table.schema.get_field_index("window_start"), "window_start", zoned)
    assert equal(save(changed, tmp_path / "r"), workload, data)[0]


def test_open_windows_belong_to_the_answer_only_when_all_are_closed(
    workload: Workload, data: Path, tmp_path: Path
) -> None:
    table, closed = answer(workload, data), closed_by_watermark(workload, data)
    ends = time_values(table["window_start"]) + workload.query.size * SECOND
    result = save(table.filter(pa.array(ends <= closed)), tmp_path / "r")
    assert equal(result, workload, data, closed)[0]
    assert not equal(result, workload, data)[0]
    assert not equal(save(table, tmp_path / "all"), workload, data, closed)[0]


def test_the_watermark_is_the_slack_behind_the_largest_time(workload: Workload, data: Path) -> None:
    largest = int(time_values(pq.read_table(data / "a")["ts"]).max())
    assert 0 <= largest - 2 * SECOND - closed_by_watermark(workload, data) < 1000


def test_a_result_without_files_is_wrong(workload: Workload, data: Path, tmp_path: Path) -> None:
    assert equal(tmp_path, workload, data) == (False, "no result files")
