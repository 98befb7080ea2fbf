"""The join on Spark's own operators, with one of its state stores; the best practical settings for state that exceeds
memory.

All of Spark is one JVM. With the default store, state is on its heap, which gets the base and the memory for state.
With RocksDB the heap gets the base, and RocksDB the memory for state, by its own bounds: one block cache for all
stores, which write buffers count against. Its format of join state is that with column families, which keeps one
RocksDB per partition instead of four. One older version of the state stays in memory instead of two.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming import StreamingQuery

from penstock_bench.peers.child import Prepared, Question
from penstock_bench.peers.scale import MEBIBYTE, MEGABYTE, STREAMS, Scale
from penstock_bench.peers.stores import ON_HEAP
from penstock_bench.peers.texts import SPARK_JOIN
from penstock_bench.peers.told import telling
from penstock_bench.systems.spark import DEFAULT_STORE, ROCKSDB, rows_read

FILES_PER_TRIGGER = 1
_STORE = "spark.sql.streaming.stateStore.rocksdb"


def settings(scale: Scale, store: str, scratch: Path) -> dict[str, str]:
    """Return Spark's settings with one of the stores."""
    heap = scale.base + (scale.memory if store == ON_HEAP else 0)
    return {
        "spark.driver.memory": f"{heap // MEBIBYTE}m",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.local.dir": str(scratch / "local"),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
        "spark.sql.shuffle.partitions": str(scale.sites),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.streaming.numRecentProgressUpdates": "10000",
        "spark.sql.streaming.maxBatchesToRetainInMemory": "1",
        **(DEFAULT_STORE if store == ON_HEAP else ROCKSDB | _bounded(scale)),
    }


def _bounded(scale: Scale) -> dict[str, str]:
    return {
        f"{_STORE}.boundedMemoryUsage": "true",
        f"{_STORE}.maxMemoryUsageMB": str(scale.memory // MEGABYTE),
        f"{_STORE}.writeBufferCacheRatio": "0.5",
        "spark.sql.streaming.join.stateFormatVersion": "3",
    }


def prepare(question: Question) -> Prepared:
    """Start Spark; the store is the option of the question."""
    scratch = Path(question.scratch)
    builder = SparkSession.builder.master(f"local[{question.scale.sites}]").appName("overflow-peers")
    for key, value in settings(question.scale, question.option, scratch).items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    for name in STREAMS:
        _read(session, Path(question.rows) / name).createOrReplaceTempView(name)

    def run() -> int:
        query = _start(session.sql(SPARK_JOIN), Path(question.results), scratch / "checkpoint")
        with telling(Path(question.told), lambda: _done(query)):
            query.awaitTermination()
        return _done(query)[0]

    return run


def _read(session: SparkSession, folder: Path) -> DataFrame:
    schema = from_arrow_schema(pq.read_schema(next(folder.iterdir())), prefer_timestamp_ntz=False)
    reader = session.readStream.schema(schema).option("maxFilesPerTrigger", FILES_PER_TRIGGER)
    return reader.parquet(str(folder)).withWatermark("ts", "0 seconds")


def _start(result: DataFrame, results: Path, checkpoint: Path) -> StreamingQuery:
    writer = result.writeStream.outputMode("append").format("parquet").option("compression", "none")
    places = {"path": str(results), "checkpointLocation": str(checkpoint)}
    return writer.options(**places).trigger(availableNow=True).start()


def _done(query: StreamingQuery) -> tuple[int, int]:
    """Return the rows and the number of the micro-batches that have ended."""
    batches = query.recentProgress
    return sum(map(rows_read, batches)), len(batches)
