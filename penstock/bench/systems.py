"""What the benchmark asks of a system, and the systems known by name.

Systems are imported only when one is created: the driver of a benchmark needs neither Spark nor the engine.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol, cast

import pyarrow.parquet as pq

from penstock.bench.workloads import Workload
from penstock.errors import ConfigError, did_you_mean


@dataclass(frozen=True)
class Limits:
    """What each system may use. The cores bind every system; `memory_gib` is the heap of Spark's JVM, and
    `files_per_trigger` is how many input files Spark takes into one micro-batch."""

    cores: int = 2
    memory_gib: int = 8
    files_per_trigger: int = 1


@dataclass(frozen=True)
class Outcome:
    """One finished run. `seconds` is from the start of the query to its end, without the start of the system."""

    seconds: float
    rows_in: int
    rows_out: int
    result_path: str


class System(Protocol):
    """A system under measurement. `prepare` once, then any number of `run`, then `close`."""

    name: str

    def prepare(self) -> None:
        """Start whatever has to be running before a query can start."""
        ...

    def run(self, workload: Workload, data_dir: Path, out_dir: Path) -> Outcome:
        """Answer `workload` over `data_dir` from the start, writing Parquet files under `out_dir`, which is empty."""
        ...

    def close(self) -> None: ...


Factory = Callable[[Limits, Path], System]


@dataclass(frozen=True)
class Entry:
    """A known system. `closes` says which windows it gives at the end of the input: `all`, or those at or below the
    watermark, 2 s behind the largest event time."""

    name: str
    module: str
    factory: str
    closes: Literal["all", "watermark"]


SYSTEMS: dict[str, Entry] = {
    entry.name: entry
    for entry in (
        Entry("penstock", "penstock.bench.penstock_system", "penstock", "all"),
        Entry("spark", "penstock.bench.spark_native", "spark", "watermark"),
        Entry("spark-rocksdb", "penstock.bench.spark_native", "spark_rocksdb", "watermark"),
        Entry("spark-panes", "penstock.bench.spark_native", "spark_panes", "watermark"),
        Entry("duckdb", "penstock.bench.duckdb_system", "duckdb_batch", "all"),
    )
}


def system_named(name: str) -> Entry:
    """The entry of that name, or an error that suggests one."""
    if name not in SYSTEMS:
        raise ConfigError(f"unknown system `{name}`", hint=did_you_mean(name, SYSTEMS))
    return SYSTEMS[name]


def create(name: str, limits: Limits, scratch: Path) -> System:
    """The system of that name, not yet prepared. It may keep temporary files under `scratch`."""
    entry = system_named(name)
    factory = cast(Factory, getattr(importlib.import_module(entry.module), entry.factory))
    return factory(limits, scratch)


def count_rows(folder: Path) -> int:
    """The rows of all Parquet files under `folder`, from their footers."""
    return sum(pq.read_metadata(path).num_rows for path in folder.rglob("*.parquet"))
