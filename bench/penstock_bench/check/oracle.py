"""The right answer, by DuckDB in batch over the same files, and the question whether a system's result is it."""

from __future__ import annotations

import tempfile
from pathlib import Path

import duckdb
from pyarrow.dataset import dataset

from penstock_bench.check.compare import Compared, compare
from penstock_bench.rows.stream import SECOND
from penstock_bench.rows.streams import stream_named
from penstock_bench.system import count_rows
from penstock_bench.workload import SLACK_SECONDS, Workload

CHECK_MEMORY = "6GiB"


def session(threads: int = 2, **settings: str) -> duckdb.DuckDBPyConnection:
    """A DuckDB of its own, in memory, in UTC."""
    connection = duckdb.connect(config={"threads": threads, "preserve_insertion_order": False, **settings})
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute("SET enable_progress_bar = false")
    return connection


def rows_in(workload: Workload, data_dir: Path) -> int:
    """How many rows the workload reads."""
    return sum(count_rows(data_dir / stream) for stream in workload.streams)


def batch_answer(connection: duckdb.DuckDBPyConnection, workload: Workload, data_dir: Path) -> duckdb.DuckDBPyRelation:
    """All result rows of the workload, every window closed."""
    for stream in workload.streams:
        connection.read_parquet(_files(data_dir / stream)).create_view(stream, replace=True)
    return connection.sql(workload.duckdb)


def closed_by_watermark(workload: Workload, data_dir: Path) -> int:
    """The watermark after the whole input, in microseconds: the slack behind the largest event time of the stream that
    is furthest behind, cut to the millisecond, which is how finely Spark keeps its watermark."""
    largest = min(_largest_time(data_dir, stream) for stream in workload.streams)
    return largest // 1000 * 1000 - SLACK_SECONDS * SECOND


def equal(result: Path, workload: Workload, data_dir: Path, closed_upto: int | None = None) -> Compared:
    """Whether the files under `result` hold the batch answer, as a multiset. With `closed_upto` (microseconds),
    only the rows that a watermark there has closed belong to the answer."""
    if not any(result.rglob("*.arrow")) and not any(result.rglob("*.parquet")):
        return Compared(detail="no result files")
    with (
        tempfile.TemporaryDirectory(prefix="penstock-check-") as spill,
        session(memory_limit=CHECK_MEMORY, temp_directory=spill) as connection,
    ):
        answer = batch_answer(connection, workload, data_dir)
        if closed_upto is not None and workload.closed is not None:
            answer = answer.filter(workload.closed.format(mark=closed_upto))
        return compare(connection, answer, found_rows(connection, result), workload)


def found_rows(connection: duckdb.DuckDBPyConnection, result: Path) -> duckdb.DuckDBPyRelation:
    """The rows of all Arrow or all Parquet files under `result`."""
    if arrow := [str(path) for path in result.rglob("*.arrow")]:
        return connection.from_arrow(dataset(arrow, format="ipc"))
    return connection.read_parquet(_files(result))


def _files(folder: Path) -> str:
    return str(folder / "**" / "*.parquet")


def _largest_time(data_dir: Path, stream: str) -> int:
    with session() as connection:
        rows = connection.read_parquet(_files(data_dir / stream))
        ((largest,),) = rows.aggregate(f"epoch_us(max({stream_named(stream).time}))").fetchall()
    return int(largest)
