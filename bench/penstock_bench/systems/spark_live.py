"""Spark's own streaming where a run does not end by itself: input that keeps coming, state that is looked at; and its
streaming frames for Penstock's adapter."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming import StreamingQuery

from penstock_bench.system import Limits
from penstock_bench.systems.spark import DEFAULT_STORE, SparkNative


class SparkLive:
    """A Spark with the settings of the peer and its default state store."""

    def __init__(self, limits: Limits, scratch: Path) -> None:
        self._native = SparkNative("spark", DEFAULT_STORE, limits, scratch)
        self._native.prepare()
        session = SparkSession.getActiveSession()
        assert session is not None, "the peer has just made one"
        self._session = session

    def start(
        self, streams: Mapping[str, Path], schema: pa.Schema, text: str, out: Path, files: int = 1000
    ) -> StreamingQuery:
        """Ask `text` over folders of Parquet files that are followed; a trigger takes up to `files` of each folder, and
        comes as soon as the one before it is done. Results are files in `out`/rows. The time of rows is `ts`, in
        order."""
        for name, folder in streams.items():
            rows = frame_of_files(self._session, folder, schema, files, zoned=True)
            rows.withWatermark("ts", "0 seconds").createOrReplaceTempView(name)
        writer = self._session.sql(text).writeStream.outputMode("append").format("parquet")
        places = {"path": str(out / "rows"), "checkpointLocation": str(out / "checkpoint")}
        return writer.options(**places).start()

    @property
    def context(self) -> SparkContext:
        return self._session.sparkContext

    def close(self) -> None:
        self._native.close()


def frame_of_files(
    session: SparkSession, folder: Path, schema: pa.Schema, files: int, zoned: bool = False
) -> DataFrame:
    """A streaming frame over a folder, of at most `files` files per trigger. `zoned`: times are TIMESTAMP, which a
    watermark of Spark needs; otherwise TIMESTAMP_NTZ, as Spark takes them from the files."""
    types = from_arrow_schema(schema, prefer_timestamp_ntz=not zoned)
    return session.readStream.schema(types).option("maxFilesPerTrigger", files).parquet(str(folder))


def session_on(context: SparkContext) -> SparkSession:
    """A session on a context that is there, with times in UTC."""
    session = SparkSession(context)
    session.conf.set("spark.sql.session.timeZone", "UTC")
    return session


def state_bytes(query: StreamingQuery) -> int:
    """What Spark says its state takes in memory, after the newest batch that tells."""
    told = [batch["stateOperators"] for batch in query.recentProgress if batch["stateOperators"]]
    return sum(int(operator["memoryUsedBytes"]) for operator in told[-1]) if told else 0
