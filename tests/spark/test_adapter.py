"""Any streaming DataFrame as a source: exact, and each micro-batch taken in once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession

import penstock as ps
from penstock.errors import CheckpointError, QueryError
from penstock.testing import Way, assert_same_rows, batch_answer

pytestmark = pytest.mark.spark
SECOND = 1_000_000


@pytest.fixture
def session(spark: SparkContext) -> SparkSession:
    return SparkSession(spark)


def write_files(folder: Path, numbers: range, zone: str | None = None) -> pa.Table:
    folder.mkdir(exist_ok=True)
    draw = np.random.default_rng([1, numbers.start])
    tables = []
    for number in numbers:
        ts = number * 10 * SECOND + draw.integers(0, 10 * SECOND, 300)
        columns = {"ts": pa.array(ts, pa.timestamp("us", zone)), "k": draw.integers(0, 10, 300), "v": draw.random(300)}
        rows = pa.table(columns)
        pq.write_table(rows, folder / f"{number:03}.parquet")
        tables.append(rows)
    whole = pa.concat_tables(tables)
    return whole.set_column(0, "ts", whole.column("ts").cast(pa.timestamp("us")))


def frame(session: SparkSession, folder: Path, time: str = "timestamp_ntz") -> DataFrame:
    reader = session.readStream.schema(f"ts {time}, k bigint, v double").option("maxFilesPerTrigger", 2)
    return reader.parquet(str(folder))


def streamed(source: DataFrame, name: str, bounded: bool = True) -> ps.Stream:
    # Files written within a millisecond are read in any order, so the slack covers them all.
    trigger = {"availableNow": True}
    return ps.read.spark(source, time="ts", progress=ps.slack("10m"), trigger=trigger, bounded=bounded, name=name)


def query(source: DataFrame, bounded: bool) -> ps.Stream:
    rows = streamed(source, "spark", bounded)
    return rows.group_by("k").window(ps.sliding("20s", every="5s")).agg(n=ps.count(), mean=ps.avg("v"))


def published(out: Path) -> pa.Table:
    return pq.read_table(out)


def test_a_streaming_frame_gives_the_batch_answer(session: SparkSession, way: Way, tmp_path: Path) -> None:
    """Of a TIMESTAMP of Spark's, which is a moment and not a time of day somewhere."""
    rows = write_files(tmp_path / "in", range(5), "UTC")
    stream = query(frame(session, tmp_path / "in", "timestamp"), bounded=True)
    run = stream.to.files(str(tmp_path / "out")).start(str(tmp_path / "ck"), **way.settings()).wait(120)
    assert run.progress.state == "finished"
    assert (run.progress.rows_in, run.progress.late_rows) == (rows.num_rows, 0)
    assert_same_rows(published(tmp_path / "out"), batch_answer(stream.node, {"spark": rows}), str(way))


def nested_rows(number: int) -> pa.Table:
    """With values, parts of values and whole columns of rows that are null or empty."""
    ids = range(60 * number, 60 * number + 60)
    point = pa.struct([("x", pa.float64())])
    users = [None if i % 7 == 3 else {"id": i % 5, "home": None if i % 4 else {"city": f"c{i % 3}"}} for i in ids]
    columns = {
        "ts": pa.array([i * SECOND for i in ids], pa.timestamp("us")),
        "user": pa.array(users, pa.struct([("id", pa.int64()), ("home", pa.struct([("city", pa.string())]))])),
        "tags": pa.array([(None, [], ["a", None], ["b"])[i % 4] for i in ids], pa.list_(pa.string())),
        "counts": pa.array([(None, [], [("x", i), ("y", None)])[i % 3] for i in ids], pa.map_(pa.string(), pa.int64())),
        "points": pa.array([([{"x": 0.5}, None], None)[i % 2] for i in ids], pa.list_(point)),
    }
    return pa.table(columns)


@pytest.mark.parametrize(
    "query",
    [
        lambda rows: rows.where("user.home.city IS DISTINCT FROM 'c1'"),
        lambda rows: rows.select("ts", "user.id AS id", "counts['x'] AS x", "points[1].x AS p", "tags", "user"),
        lambda rows: rows.select("ts", "user", "counts", id="user.id").join(
            rows.select("ts", "tags", "points", id="user.id"), "id", within="5s", kind="left"
        ),
    ],
    ids=["whole", "fields", "joined"],
)
def test_nested_columns_of_a_frame_pass_through(
    query: Callable[[ps.Stream], ps.Stream], session: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "in").mkdir()
    tables = [nested_rows(number) for number in range(3)]
    for number, rows in enumerate(tables):
        pq.write_table(rows, tmp_path / "in" / f"{number}.parquet")
    schema = (
        "ts timestamp_ntz, user struct<id: bigint, home: struct<city: string>>, tags array<string>, "
        "counts map<string, bigint>, points array<struct<x: double>>"
    )
    reader = session.readStream.schema(schema).option("maxFilesPerTrigger", 1)
    source = streamed(reader.parquet(str(tmp_path / "in")), "spark")
    assert source.schema.names == tables[0].column_names
    stream = query(source)
    run = stream.to.files(str(tmp_path / "out")).start(str(tmp_path / "ck"), sites=2).wait(120)
    assert (run.progress.state, run.progress.late_rows, run.progress.bad_rows) == ("finished", 0, 0)
    want = batch_answer(stream.node, {"spark": pa.concat_tables(tables)})
    assert want.num_rows > 100
    assert sorted(map(repr, published(tmp_path / "out").to_pylist())) == sorted(map(repr, want.to_pylist()))


def test_a_restart_goes_on_after_the_last_committed_batch(session: SparkSession, tmp_path: Path) -> None:
    first = write_files(tmp_path / "in", range(3))
    stream = query(frame(session, tmp_path / "in"), bounded=False)
    run = stream.to.files(str(tmp_path / "out")).start(str(tmp_path / "ck"), until="900 rows").wait(120)
    assert run.progress.state == "stopped"
    second = write_files(tmp_path / "in", range(3, 5))
    stream = query(frame(session, tmp_path / "in"), bounded=True)
    run = stream.to.files(str(tmp_path / "out")).start(str(tmp_path / "ck")).wait(120)
    assert run.progress.rows_in == second.num_rows
    want = batch_answer(stream.node, {"spark": pa.concat_tables([first, second])})
    assert_same_rows(published(tmp_path / "out"), want)


def test_two_streaming_frames_and_a_table_in_one_query(session: SparkSession, way: Way, tmp_path: Path) -> None:
    tables = {name: write_files(tmp_path / name, numbers) for name, numbers in (("a", range(5)), ("b", range(2)))}
    a, b = (streamed(frame(session, tmp_path / name), name) for name in ("a", "b"))
    table = tables["a"].filter(pa.compute.less(tables["a"].column("v"), 0.1)).sort_by("ts")
    few = ps.read.batches([table], time="ts", progress=ps.ordered(), splits_per_batch=3, name="few")
    joined = ps.join_all([few, a, b], "k", within="2s").select("ts", "k", "v", v2="v_2", v3="v_3")
    run = joined.to.files(str(tmp_path / "out")).start(str(tmp_path / "ck"), **way.settings()).wait(120)
    assert (run.progress.state, run.progress.late_rows) == ("finished", 0)
    assert_same_rows(published(tmp_path / "out"), batch_answer(joined.node, {**tables, "few": table}), str(way))


def test_streaming_frames_of_one_name_are_refused(session: SparkSession, tmp_path: Path) -> None:
    write_files(tmp_path / "in", range(1))
    first, second = (streamed(frame(session, tmp_path / "in"), "spark") for _ in range(2))
    assert first.join(first, "k", within="1s").times
    with pytest.raises(QueryError, match="two sources are called `spark`"):
        first.join(second, "k", within="1s")


def test_a_checkpoint_fed_by_another_streaming_query_is_refused(session: SparkSession, tmp_path: Path) -> None:
    write_files(tmp_path / "in", range(2))
    stream = query(frame(session, tmp_path / "in"), bounded=False)
    stream.to.files(str(tmp_path / "out")).start(str(tmp_path / "ck"), until="600 rows").wait(120)
    (tmp_path / "ck" / "spark").rename(tmp_path / "lost")
    stream = query(frame(session, tmp_path / "in"), bounded=True)
    run = stream.to.files(str(tmp_path / "out")).start(str(tmp_path / "ck"))
    with pytest.raises(CheckpointError, match="another streaming query"):
        run.wait(120)
