from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from penstock.errors import ConfigError
from penstock.types import time_values
from penstock_bench.rows.data import ensure_data, file_rows, marker_of
from penstock_bench.rows.stream import FILES, SECOND, START
from penstock_bench.rows.streams import STREAMS
from penstock_bench.rows.wide import WIDE_SCHEMA
from penstock_bench.workload import SLACK_SECONDS

ROWS = 20_000


@pytest.mark.parametrize("name", sorted(STREAMS))
def test_rows_have_the_schema_and_depend_on_the_arguments_only(name: str) -> None:
    stream = STREAMS[name]
    one, two = stream.rows(ROWS, 3), stream.rows(ROWS, 3)
    assert one.equals(two)
    assert one.schema.equals(stream.schema)
    assert not one.equals(stream.rows(ROWS, 4))
    one.validate(full=True)


@pytest.mark.parametrize("name", sorted(STREAMS))
def test_each_file_covers_its_thirty_seconds_in_the_order_of_time(name: str) -> None:
    for file in (0, FILES - 1):
        times = time_values(STREAMS[name].rows(ROWS, file)[STREAMS[name].time])
        begin = START + file * 30 * SECOND
        assert begin <= times[0] < begin + SECOND
        assert begin + 29 * SECOND < times[-1] < begin + 30 * SECOND
        assert np.all(np.diff(times) >= 0)


def test_streams_of_the_same_shape_have_different_rows() -> None:
    keys = [STREAMS[name].rows(ROWS, 0)["k"] for name in ("a", "b", "c")]
    assert not keys[0].equals(keys[1])
    assert not keys[0].equals(keys[2])
    assert not keys[1].equals(keys[2])


def test_ten_files_of_equal_size_are_written_in_the_order_of_time(tmp_path: Path) -> None:
    paths = sorted((ensure_data(tmp_path, ROWS) / "a").iterdir())
    assert [path.name for path in paths] == [f"{file:02d}.parquet" for file in range(FILES)]
    assert [pq.read_metadata(path).num_rows for path in paths] == [ROWS // FILES] * FILES
    assert pq.read_table(paths[7]).equals(STREAMS["a"].rows(ROWS, 7))
    stamps = [path.stat().st_mtime for path in paths]
    assert np.diff(stamps).tolist() == [1.0] * (FILES - 1)  # far enough apart for any file system


def test_rows_that_do_not_divide_by_ten_are_all_there(tmp_path: Path) -> None:
    assert pq.read_table(ensure_data(tmp_path, 1_234) / "a").num_rows == 1_234


def test_with_a_disorder_rows_are_out_of_order_but_never_late(tmp_path: Path) -> None:
    shuffled = pq.read_table(ensure_data(tmp_path, ROWS, disorder=1.9) / "a")
    times = time_values(shuffled["ts"])
    behind = np.maximum.accumulate(times) - times
    assert SECOND < behind.max() < SLACK_SECONDS * SECOND
    ordered = pa.concat_tables(STREAMS["a"].rows(ROWS, file) for file in range(FILES))
    assert shuffled.sort_by("ts")["v"].equals(ordered.sort_by("ts")["v"])


def test_keys_are_spread_over_their_range() -> None:
    keys = file_rows(STREAMS["a"], 1_000_000, 0)["k"].to_numpy()
    assert keys.min() >= 0
    assert keys.max() < 100_000
    assert len(np.unique(keys)) > 60_000  # 100,000 * (1 - 1/e) expected


def test_wide_rows_have_fifty_columns_of_which_twenty_are_strings() -> None:
    assert len(WIDE_SCHEMA) == 50
    words = [name for name, kind in zip(WIDE_SCHEMA.names, WIDE_SCHEMA.types, strict=True) if kind == pa.string()]
    assert len(words) == 20
    rows = STREAMS["wide"].rows(100_000, 0)
    lengths = [pc.min_max(pc.utf8_length(rows[name])).as_py() for name in words]
    assert lengths == [{"min": 8, "max": 24}] * 20
    assert {pc.count_distinct(rows[name]).as_py() <= 1_000 for name in words} == {True, False}


def test_data_that_is_there_is_not_written_again(tmp_path: Path) -> None:
    first = ensure_data(tmp_path, ROWS) / "a" / "00.parquet"
    first.write_bytes(b"kept")
    ensure_data(tmp_path, ROWS, ("a", "b"))
    assert first.read_bytes() == b"kept"
    assert pq.read_table(tmp_path / "b").num_rows == ROWS


def test_other_parameters_or_a_missing_marker_write_again(tmp_path: Path) -> None:
    ensure_data(tmp_path, ROWS)
    assert pq.read_table(ensure_data(tmp_path, 2 * ROWS) / "a").num_rows == 2 * ROWS
    marker_of(tmp_path, "a").unlink()
    (tmp_path / "a" / "00.parquet").write_bytes(b"half a file")
    assert pq.read_table(ensure_data(tmp_path, 2 * ROWS) / "a").num_rows == 2 * ROWS
    in_order = time_values(pq.read_table(tmp_path / "a")["ts"])
    shuffled = time_values(pq.read_table(ensure_data(tmp_path, 2 * ROWS, disorder=1.0) / "a")["ts"])
    assert (np.diff(in_order) >= 0).all()
    assert (np.diff(shuffled) < 0).any()


def test_impossible_data_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="at least 10 rows"):
        ensure_data(tmp_path, 9)
    with pytest.raises(ConfigError, match="unknown benchmark stream `z`"):
        ensure_data(tmp_path, ROWS, ("z",))
    with pytest.raises(ConfigError, match="below its slack"):
        ensure_data(tmp_path, ROWS, disorder=2.0)
    assert list(tmp_path.iterdir()) == []
