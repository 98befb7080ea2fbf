"""The join on Flink, with state in RocksDB: the heap gets the base, and RocksDB the memory for state, as the managed
memory of the task manager. Index and filter blocks are partitioned, as Flink advises where memory is little, and there
are Bloom filters. No checkpoints: it need not survive a crash."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pyarrow.parquet as pq

from penstock.connectors.generator.joinable import JOINABLE_SCHEMA
from penstock_bench.flink.columns import create_table, read_table
from penstock_bench.flink.environment import DRIVER, FlinkEnvironment
from penstock_bench.flink.process import Answer, Request
from penstock_bench.peers.scale import MEBIBYTE, STREAMS, Scale
from penstock_bench.peers.texts import FLINK_JOIN, FLINK_MULTI_JOIN

INTERVAL, MULTI = "interval", "multi"
_ROCKSDB = "state.backend.rocksdb"


def arguments(scale: Scale, scratch: Path) -> list[str]:
    """Return the command that starts Flink: its driver, with the settings of the cluster."""
    settings = {
        "taskmanager.memory.managed.size": f"{scale.memory}b",
        "io.tmp.dirs": str(scratch / "flink-tmp"),
        f"{_ROCKSDB}.localdir": str(scratch / "state"),
    }
    options = [f"{key}={value}" for key, value in settings.items()]
    return [str(FlinkEnvironment().python), "-I", str(DRIVER), str(scale.sites), *options]


def variables(scale: Scale, scratch: Path) -> dict[str, str]:
    heap = f"-Xmx{scale.base // MEBIBYTE}m -XX:+UseParallelGC"
    return FlinkEnvironment().variables(1, scratch / "logs") | {"JVM_ARGS": heap}


def request(scale: Scale, columns: Path, results: Path, told: Path, way: str) -> bytes:
    """Return what the driver is asked, in one of two ways: interval joins, or one join of three."""
    settings = {
        "parallelism.default": str(scale.sites),
        "pipeline.object-reuse": "true",
        "table.local-time-zone": "UTC",
        "restart-strategy.type": "none",
        "state.backend.type": "rocksdb",
        f"{_ROCKSDB}.memory.managed": "true",
        f"{_ROCKSDB}.memory.partitioned-index-filters": "true",
        f"{_ROCKSDB}.use-bloom-filter": "true",
        "table.optimizer.multi-join.enabled": str(way == MULTI).lower(),
    }
    tables = tuple(create_table(name, JOINABLE_SCHEMA, "ts", columns / name) for name in STREAMS)
    query = FLINK_MULTI_JOIN if way == MULTI else FLINK_JOIN
    return msgspec.json.encode(Request(tables, query, str(results), settings, str(told))) + b"\n"


def answered(output: Path) -> Answer | None:
    """Return the driver's answer, which follows a line that says that it is ready; None if there is none."""
    lines = output.read_bytes().splitlines()
    return msgspec.json.decode(lines[1], type=Answer) if len(lines) > 1 else None


def as_parquet(answer: Answer, columns: Path, results: Path) -> None:
    """Write Flink's results as Parquet files."""
    results.mkdir(parents=True)
    pq.write_table(read_table(columns, answer.columns), results / "answer.parquet")
