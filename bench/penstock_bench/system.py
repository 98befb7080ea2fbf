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

from penstock.errors import ConfigError, did_you_mean
from penstock_bench.profile.shares import EpochProfile
from penstock_bench.workload import Refused, Workload


@dataclass(frozen=True)
class Limits:
    """What each system may use. The cores bind every system; `memory_gib` is the heap of a peer's JVM, and
    `files_per_trigger` is how many files of each stream Spark takes into one micro-batch."""

    cores: int = 2
    memory_gib: int = 12
    files_per_trigger: int = 1


@dataclass(frozen=True)
class Outcome:
    """One finished run. `seconds` is from the start of the query to its end, without the start of the system.
    `epochs` are the epochs or micro-batches that it took, 0 for a system that has none; `profiles` say where the time
    of each went, for a system that tells."""

    seconds: float
    rows_in: int
    rows_out: int
    result_path: str
    epochs: int = 0
    profiles: tuple[EpochProfile, ...] = ()


class System(Protocol):
    """A system under measurement. `prepare` once, then any number of `run`, then `close`."""

    name: str

    def prepare(self) -> None:
        """Start whatever has to be running before a query can start."""
        ...

    def run(self, workload: Workload, data_dir: Path, out_dir: Path) -> Outcome:
        """Answer `workload` over `data_dir`, which has a folder of Parquet files for each stream, from the start; write
        Parquet files under `out_dir`, which is empty."""
        ...

    def close(self) -> None: ...


Factory = Callable[[Limits, Path], System]


@dataclass(frozen=True)
class Entry:
    """A known system. `text` is the field of a workload that it is asked. `closes` says which rows it gives at the end
    of the input: `all`, or those that the watermark has closed, 2 s behind the largest event time. A module with a
    function `available` can say why its system cannot run here."""

    name: str
    module: str
    factory: str
    text: Literal["penstock", "spark", "spark_panes", "flink", "duckdb"]
    closes: Literal["all", "watermark"] = "all"


SYSTEMS: dict[str, Entry] = {
    entry.name: entry
    for entry in (
        Entry("penstock", "penstock_bench.systems.penstock", "penstock", "penstock"),
        Entry("penstock-files", "penstock_bench.systems.penstock", "penstock_files", "penstock"),
        Entry("spark", "penstock_bench.systems.spark", "spark", "spark", "watermark"),
        Entry("spark-rocksdb", "penstock_bench.systems.spark", "spark_rocksdb", "spark", "watermark"),
        Entry("spark-panes", "penstock_bench.systems.spark", "spark_panes", "spark_panes", "watermark"),
        Entry("flink", "penstock_bench.flink.system", "flink", "flink"),
        Entry("duckdb", "penstock_bench.systems.duckdb", "duckdb_batch", "duckdb"),
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


def asked(entry: Entry, workload: Workload) -> str | Refused | None:
    """The text of the workload for the system; None: there is none, and nothing to say about it."""
    return cast("str | Refused | None", getattr(workload, entry.text))


def missing(entry: Entry) -> str | None:
    """Why the system cannot run here, or None. Asked only of systems that need more than Penstock itself does."""
    if entry.name != "flink":
        return None
    available = cast(Callable[[], str | None], importlib.import_module(entry.module).available)
    return available()


def count_rows(folder: Path) -> int:
    """The rows of all Parquet files under `folder`, from their footers."""
    return sum(pq.read_metadata(path).num_rows for path in folder.rglob("*.parquet"))
