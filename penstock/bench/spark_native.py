"""Spark Structured Streaming with its own operators: the peer. The only file of this folder that imports pyspark.

Settings are the best plausible ones for a small local Spark, not its defaults:

- `local[cores]`, as many shuffle partitions as cores: more only adds state stores and tasks per micro-batch;
- 8 GiB of driver memory (which is all of Spark in local mode), whole-stage code generation, Kryo, no UI, loopback;
- RocksDB with changelog checkpointing and without counting rows, as Spark's guide advises for speed;
- `availableNow`, append mode, a Parquet sink, a fresh checkpoint; watermark delay of 2 s;
- `maxFilesPerTrigger` is `Limits.files_per_trigger`; the runner can try several and keep the fastest.

`spark-panes` is what an expert would write for a sliding window: one aggregate per slide, and a second one that adds
these up per window, so that a row is not copied into every window it belongs to. A tumbling window has no panes to add.

In append mode a window comes out when the watermark has passed its end. After the last file Spark runs one more
micro-batch without data, so every window up to the final watermark does come out; the windows above it stay open.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StreamingQuery
from pyspark.sql.types import DoubleType, LongType, StructType, TimestampType

from penstock.bench.systems import Limits, Outcome, System, count_rows
from penstock.bench.workloads import SLACK_SECONDS, WindowAggregate, Workload

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
_SCHEMA = StructType().add("ts", TimestampType()).add("k", LongType()).add("v", DoubleType())


class SparkNative:
    """Spark's own streaming operators with one of its state stores."""

    def __init__(self, name: str, store: dict[str, str], limits: Limits, scratch: Path, panes: bool = False) -> None:
        self.name = name
        self._settings = _settings(limits, scratch) | store
        self._limits, self._panes = limits, panes
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
        rows = _read(self._spark, data_dir / workload.query.stream, self._limits.files_per_trigger)
        result = (_by_panes if self._panes else _by_window)(rows, workload.query)
        began = time.perf_counter()
        query = _start(result, out_dir)
        query.awaitTermination()
        seconds = time.perf_counter() - began
        rows_in = sum(int(batch["numInputRows"]) for batch in query.recentProgress)
        return Outcome(seconds, rows_in, count_rows(out_dir / "rows"), str(out_dir / "rows"))

    def close(self) -> None:
        if self._spark is not None:
            self._spark.stop()


def spark(limits: Limits, scratch: Path) -> System:
    return SparkNative("spark", DEFAULT_STORE, limits, scratch)


def spark_rocksdb(limits: Limits, scratch: Path) -> System:
    return SparkNative("spark-rocksdb", ROCKSDB, limits, scratch)


def spark_panes(limits: Limits, scratch: Path) -> System:
    return SparkNative("spark-panes", DEFAULT_STORE, limits, scratch, panes=True)


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


def _read(spark: SparkSession, folder: Path, files_per_trigger: int) -> DataFrame:
    rows = spark.readStream.schema(_SCHEMA).option("maxFilesPerTrigger", files_per_trigger).parquet(str(folder))
    return rows.withWatermark("ts", f"{SLACK_SECONDS} seconds")


def _by_window(rows: DataFrame, query: WindowAggregate) -> DataFrame:
    window = F.window("ts", f"{query.size} seconds", f"{query.slide} seconds")
    grouped = rows.groupBy(_key(query).alias("k"), window.alias("window"))
    return _result(grouped.agg(F.count(F.lit(1)).alias("n"), F.sum("v").alias("s")))


def _by_panes(rows: DataFrame, query: WindowAggregate) -> DataFrame:
    if query.size == query.slide:
        return _by_window(rows, query)
    pane = F.window("ts", f"{query.slide} seconds").alias("pane")
    panes = rows.groupBy(_key(query).alias("k"), pane).agg(F.count(F.lit(1)).alias("n"), F.sum("v").alias("s"))
    window = F.window(F.window_time("pane"), f"{query.size} seconds", f"{query.slide} seconds")
    return _result(panes.groupBy("k", window.alias("window")).agg(F.sum("n").alias("n"), F.sum("s").alias("s")))


def _result(windows: DataFrame) -> DataFrame:
    return windows.select("k", F.col("window.start").alias("window_start"), "n", "s")


def _key(query: WindowAggregate) -> Column:
    return F.col("k") if query.key_modulo is None else F.col("k") % F.lit(query.key_modulo)


def _start(result: DataFrame, out_dir: Path) -> StreamingQuery:
    return (
        result.writeStream.outputMode("append")
        .format("parquet")
        .option("path", str(out_dir / "rows"))
        .option("checkpointLocation", str(out_dir / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
