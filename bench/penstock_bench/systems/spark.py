"""Spark Structured Streaming with its own operators: the peer. Asked in Spark SQL over streaming views.

Settings are the best plausible ones for a small local Spark, not its defaults:

- `local[cores]`, as many shuffle partitions as cores: more only adds state stores and tasks per micro-batch;
- 12 GiB of driver memory (which is all of Spark in local mode), whole-stage code generation, Kryo, no UI, loopback;
- RocksDB with changelog checkpointing and without counting rows, as Spark's guide advises for speed;
- `availableNow`, append mode, a Parquet sink, a fresh checkpoint; watermark delay of 2 s;
- `maxFilesPerTrigger` is `Limits.files_per_trigger`; the runner can try several and keep the fastest.

In append mode a window comes out when the watermark has passed its end. After the last file Spark runs one more
micro-batch without data, so every window up to the final watermark does come out; the windows above it stay open.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming import StreamingQuery

from penstock_bench.rows.streams import BenchStream, stream_named
from penstock_bench.system import SYSTEMS, Limits, Outcome, System, asked, count_rows
from penstock_bench.workload import SLACK_SECONDS, Workload

ROCKSDB: dict[str, str] = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows": "false",
}
DEFAULT_STORE: dict[str, str] = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
    ),
}


class SparkNative:
    """Spark's own streaming operators with one of its state stores."""

    def __init__(self, name: str, store: dict[str, str], limits: Limits, scratch: Path) -> None:
        self.name = name
        self._settings = _settings(limits, scratch) | store
        self._limits = limits
        self._spark: SparkSession | None = None

    def prepare(self) -> None:
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        builder = SparkSession.builder.master(f"local[{self._limits.cores}]").appName("penstock-bench")
        for key, value in self._settings.items():
            builder = builder.config(key, value)
        self._spark = builder.getOrCreate()
        self._spark.sparkContext.setLogLevel("ERROR")

    def run(self, workload: Workload, data_dir: Path, out_dir: Path) -> Outcome:
        assert self._spark is not None, "prepare comes first"
        for stream in workload.streams:
            rows = _read(self._spark, stream_named(stream), data_dir, self._limits.files_per_trigger)
            rows.createOrReplaceTempView(stream)
        began = time.perf_counter()
        query = _start(self._spark.sql(self._text(workload)), out_dir)
        query.awaitTermination()
        seconds = time.perf_counter() - began
        return _outcome(query, seconds, out_dir / "rows")

    def close(self) -> None:
        if self._spark is not None:
            self._spark.stop()

    def _text(self, workload: Workload) -> str:
        text = asked(SYSTEMS[self.name], workload)
        assert isinstance(text, str), "only what the system does not refuse is asked"
        return text


def spark(limits: Limits, scratch: Path) -> System:
    return SparkNative("spark", DEFAULT_STORE, limits, scratch)


def spark_rocksdb(limits: Limits, scratch: Path) -> System:
    return SparkNative("spark-rocksdb", ROCKSDB, limits, scratch)


def spark_panes(limits: Limits, scratch: Path) -> System:
    return SparkNative("spark-panes", DEFAULT_STORE, limits, scratch)


def _settings(limits: Limits, scratch: Path) -> dict[str, str]:
    return {
        "spark.driver.memory": f"{limits.memory_gib}g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.local.dir": str(scratch / "local"),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
        "spark.sql.shuffle.partitions": str(limits.cores),
        "spark.sql.codegen.wholeStage": "true",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.streaming.noDataMicroBatches.enabled": "true",
        "spark.sql.streaming.numRecentProgressUpdates": "10000",
    }


def _read(spark: SparkSession, stream: BenchStream, data_dir: Path, files_per_trigger: int) -> DataFrame:
    schema = from_arrow_schema(stream.schema, prefer_timestamp_ntz=False)  # a watermark needs TIMESTAMP
    reader = spark.readStream.schema(schema).option("maxFilesPerTrigger", files_per_trigger)
    return reader.parquet(str(data_dir / stream.name)).withWatermark(stream.time, f"{SLACK_SECONDS} seconds")


def _start(result: DataFrame, out_dir: Path) -> StreamingQuery:
    return (
        result.writeStream.outputMode("append")
        .format("parquet")
        .option("path", str(out_dir / "rows"))
        .option("compression", "none")
        .option("checkpointLocation", str(out_dir / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )


def _outcome(query: StreamingQuery, seconds: float, result: Path) -> Outcome:
    read = [rows_read(batch) for batch in query.recentProgress]
    batches = sum(rows > 0 for rows in read)
    return Outcome(seconds, sum(read), count_rows(result), str(result), batches)


def rows_read(batch: Mapping[str, Any]) -> int:
    """The rows that a micro-batch took in. A stream that a query names twice is read twice, but counts once."""
    return sum({source["description"]: int(source["numInputRows"]) for source in batch["sources"]}.values())
