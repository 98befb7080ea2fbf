"""Measurements as plain records: what the table, the JSON and the page are made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from penstock_bench.run.measurement import Measurement

OURS = "penstock"


@dataclass(frozen=True)
class Record:
    """One system on one workload. `ratio` is Penstock's rows per second over this system's; `spread` the seconds of the
    fastest and of the slowest trial; `epochs` those of the trial that had the fewest, null for a system without any.
    Invariant: figures are there where there were `trials`; where there were none, `refused` or `failed` says why. A
    system that failed may have figures of earlier trials. `detail` says what is wrong with a result."""

    workload: str
    system: str
    rows_per_second: float | None = None
    seconds: float | None = None
    peak_memory_bytes: int | None = None
    equal: bool | None = None
    ratio: float | None = None
    spread: tuple[float, float] | None = None
    epochs: int | None = None
    trials: int = 0
    rows: int | None = None
    refused: str | None = None
    failed: str | None = None
    detail: str = ""

    @property
    def trouble(self) -> str:
        """Why there is no right answer, or not in every trial, in one line; empty where there is. What follows the
        first line of a failure names files of the machine, and stays in `failed`."""
        if self.refused is not None:
            return f"refused: {self.refused}"
        if self.failed is not None:
            first_line, _, _ = self.failed.strip().partition("\n")
            return f"failed: {first_line}"
        return "" if self.equal else f"wrong result: {self.detail}"


def records(measurements: Sequence[Measurement]) -> list[Record]:
    """One record per workload and system, in the order measured."""
    ours = {one.workload: one.rows_per_second for one in measurements if one.system == OURS and one.trials}
    return [_record(one, ours.get(one.workload)) for one in measurements]


def _record(one: Measurement, ours: float | None) -> Record:
    if not one.trials:
        return Record(one.workload, one.system, refused=one.refused, failed=one.failed)
    return Record(
        one.workload,
        one.system,
        rows_per_second=one.rows_per_second,
        seconds=one.seconds,
        peak_memory_bytes=one.peak_memory_bytes,
        equal=one.equal,
        ratio=None if ours is None else ours / one.rows_per_second,
        spread=one.spread,
        epochs=one.epochs or None,
        trials=len(one.trials),
        rows=one.trials[0].rows_in,
        failed=one.failed,
        detail=next((trial.detail for trial in one.trials if not trial.equal), ""),
    )


def records_json(found: Sequence[Record]) -> str:
    return msgspec.json.format(msgspec.json.encode(found), indent=2).decode()


def by_workload(found: Sequence[Record]) -> dict[str, list[Record]]:
    """The records of each workload, in the order measured."""
    names = dict.fromkeys(record.workload for record in found)
    return {name: [record for record in found if record.workload == name] for name in names}
