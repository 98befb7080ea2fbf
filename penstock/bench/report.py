"""Measurements as a table for the terminal and as JSON for programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

import msgspec
from rich.table import Table

from penstock.bench.runner import Measurement
from penstock.bench.workloads import WORKLOADS

OURS = "penstock"


class Record(TypedDict):
    """One system on one workload. `ratio` is Penstock's rows per second over this system's; null without Penstock."""

    workload: str
    system: str
    rows_per_second: float
    seconds: float
    peak_memory_bytes: int
    equal: bool
    ratio: float | None


def records(measurements: Sequence[Measurement]) -> list[Record]:
    """One record per workload and system, in the order measured."""
    return [_record(one, _of_system(measurements, one.workload, OURS)) for one in measurements]


def as_json(measurements: Sequence[Measurement]) -> str:
    return msgspec.json.format(msgspec.json.encode(records(measurements)), indent=2).decode()


def as_table(measurements: Sequence[Measurement]) -> Table:
    """The same for reading. The ratio's base is Penstock, or the fastest Spark where Penstock was not measured."""
    table = Table(
        caption="ratio: how many times this system's rows/s the base reaches; base: penstock, else best spark"
    )
    for heading in ("workload", "system"):
        table.add_column(heading)
    for heading in ("rows/s", "seconds", "min..max", "ratio", "peak memory", "equal"):
        table.add_column(heading, justify="right")
    for one in measurements:
        table.add_row(*_cells(one, _base(measurements, one.workload)))
    return table


def _record(one: Measurement, ours: Measurement | None) -> Record:
    return Record(
        workload=one.workload,
        system=one.system,
        rows_per_second=one.rows_per_second,
        seconds=one.seconds,
        peak_memory_bytes=one.peak_memory_bytes,
        equal=one.equal,
        ratio=None if ours is None else ours.rows_per_second / one.rows_per_second,
    )


def _of_system(measurements: Sequence[Measurement], workload: str, system: str) -> Measurement | None:
    return next((one for one in measurements if (one.workload, one.system) == (workload, system)), None)


def _base(measurements: Sequence[Measurement], workload: str) -> Measurement | None:
    sparks = [one for one in measurements if one.workload == workload and one.system.startswith("spark")]
    best = max(sparks, key=lambda one: one.rows_per_second, default=None)
    return _of_system(measurements, workload, OURS) or best


def _cells(one: Measurement, base: Measurement | None) -> list[str]:
    fastest, slowest = one.spread
    return [
        f"{one.workload}: {WORKLOADS[one.workload].title}",
        one.system,
        f"{one.rows_per_second:,.0f}",
        f"{one.seconds:.2f}",
        f"{fastest:.2f}..{slowest:.2f}",
        "-" if base is None else f"{base.rows_per_second / one.rows_per_second:.2f}",
        f"{one.peak_memory_bytes / 2**20:,.0f} MiB",
        "yes" if one.equal else f"NO: {next(trial.detail for trial in one.trials if not trial.equal)}",
    ]
