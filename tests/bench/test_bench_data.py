from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from penstock.bench.data import FILES, MARKER, SCHEMA, STREAMS, ensure_data, file_rows
from penstock.bench.workloads import SLACK_SECONDS
from penstock.errors import ConfigError
from penstock.schema import time_values

ROWS = 20_000
SECOND = 1_000_000


def test_two_generations_are_equal(tmp_path: Path) -> None:
    one, two = ensure_data(tmp_path / "one", ROWS), ensure_data(tmp_path / "two", ROWS)
    tables = [pq.read_table(folder / "a") for folder in (one, two)]
    assert tables[0].equals(tables[1])
    assert tables[0].schema.equals(SCHEMA)


def test_ten_files_of_equal_size_and_thirty_seconds_in_the_order_of_time(tmp_path: Path) -> None:
    paths = sorted((ensure_data(tmp_path, ROWS) / "a").glob("*.parquet"))
    times = [time_values(pq.read_table(path)["ts"]) for path in paths]
    assert [len(each) for each in times] == [ROWS // FILES] * FILES
    assert all(30 * SECOND < each.max() - each.min() < (30 + SLACK_SECONDS) * SECOND for each in times)
    stamps = [path.stat().st_mtime for path in paths]
    assert np.diff(stamps).tolist() == [1.0] * (FILES - 1)  # far enough apart for any file system


def test_rows_are_out_of_order_but_never_late(tmp_path: Path) -> None:
    times = time_values(pq.read_table(ensure_data(tmp_path, ROWS) / "a")["ts"])
    behind = np.maximum.accumulate(times) - times
    assert SECOND < behind.max() <= SLACK_SECONDS * SECOND


def test_keys_are_spread_over_their_range() -> None:
    keys = file_rows(STREAMS["a"], 1_000_000, 0)["k"].to_numpy()
    assert keys.min() >= 0
    assert keys.max() < 100_000
    assert len(np.unique(keys)) > 60_000  # 100,000 * (1 - 1/e) expected


def test_data_that_is_there_is_not_written_again(tmp_path: Path) -> None:
    first = ensure_data(tmp_path, ROWS) / "a" / "00.parquet"
    first.write_bytes(b"kept")
    ensure_data(tmp_path, ROWS)
    assert first.read_bytes() == b"kept"


def test_other_parameters_or_a_missing_marker_write_again(tmp_path: Path) -> None:
    ensure_data(tmp_path, ROWS)
    assert pq.read_table(ensure_data(tmp_path, 2 * ROWS) / "a").num_rows == 2 * ROWS
    (tmp_path / MARKER).unlink()
    assert pq.read_table(ensure_data(tmp_path, ROWS) / "a").num_rows == ROWS


def test_too_few_rows_and_unknown_streams_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="at least 10 rows"):
        ensure_data(tmp_path, 9)
    with pytest.raises(ConfigError, match="unknown benchmark stream `z`"):
        ensure_data(tmp_path, ROWS, ("z",))
