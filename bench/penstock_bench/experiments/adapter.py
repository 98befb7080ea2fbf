"""`adapter`: Penstock with rows that come through Spark, beside Spark's own operators on the same rows."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from penstock_bench.experiments.experiment import Bar, Column, Experiment, Finding, Record, Setting
from penstock_bench.experiments.part import ask
from penstock_bench.rows.data import ensure_data
from penstock_bench.run.child import Job, RunResult
from penstock_bench.run.launch import launch
from penstock_bench.run.measurement import Measurement, Trial
from penstock_bench.run.pairs import Pair
from penstock_bench.run.runner import check
from penstock_bench.system import Limits, system_named
from penstock_bench.workloads.windows import TUMBLE

BAR = 3.0
BATCHES = (2, 4, 5, 10)  # files per trigger that each side tries first

Run = Callable[[Job, Path], RunResult]


@dataclass(frozen=True)
class Side:
    """One of the two. `system` is the one whose results it is to give."""

    name: str
    system: str
    run: Run


@dataclass(frozen=True)
class Chosen:
    """A side with the batch size that it does best with."""

    side: Side
    files: int


def _through_adapter(job: Job, log: Path) -> RunResult:
    return ask("penstock_bench.experiments.adapter_run", job, RunResult, log, job.limits.cores)


SIDES = (Side("penstock, adapter", "penstock", _through_adapter), Side("spark", "spark", launch))


def measure(setting: Setting) -> Finding:
    rows, batches = (50_000, (5,)) if setting.quick else (4_000_000, BATCHES)
    trial = partial(_trial, setting, rows)
    chosen = [_best(trial, side, batches) for side in SIDES]
    turns = [[trial(one) for one in chosen] for _ in range(setting.repeat)]
    return finding(chosen, [list(trials) for trials in zip(*turns, strict=True)])


def _best(trial: Callable[[Chosen], Trial], side: Side, batches: Sequence[int]) -> Chosen:
    candidates = [Chosen(side, files) for files in batches]
    return min(candidates, key=lambda one: trial(one).seconds) if len(candidates) > 1 else candidates[0]


def _trial(setting: Setting, rows: int, one: Chosen) -> Trial:
    """One checked run; its files are gone afterwards."""
    setting.tell(f"{one.side.name}, {one.files} files per trigger ...")
    data, warm = (ensure_data(setting.folder(f"data-{n}"), n, TUMBLE.streams) for n in (rows, min(rows, 400_000)))
    limits = Limits(cores=setting.cores, files_per_trigger=one.files)
    folder = setting.folder("adapter")
    scratch = folder / one.side.system
    job = Job(one.side.system, TUMBLE.name, str(data), str(warm), str(scratch), limits)
    try:
        result = one.side.run(job, folder / f"{one.side.system}.log")
        return check(Pair(TUMBLE, system_named(one.side.system), limits), result, data)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def finding(chosen: Sequence[Chosen], trials: Sequence[Sequence[Trial]]) -> Finding:
    """The adapter first."""
    measured = [
        Measurement(TUMBLE.name, one.side.name, Limits(files_per_trigger=one.files), tuple(own))
        for one, own in zip(chosen, trials, strict=True)
    ]
    ratio = measured[0].rows_per_second / measured[1].rows_per_second
    bar = Bar("tumble through the adapter, of Spark native", ratio, "at least", BAR)
    return Finding(tuple(map(record, measured)), (bar,), all(one.equal for one in measured))


def record(one: Measurement) -> Record:
    return {
        "system": one.system,
        "files_per_trigger": one.limits.files_per_trigger,
        "rows_per_second": one.rows_per_second,
        "seconds": one.seconds,
        "least": one.spread[0],
        "most": one.spread[1],
        "peak_memory_bytes": one.peak_memory_bytes,
        "epochs": one.epochs,
        "equal": one.equal,
    }


SYSTEM_COLUMNS = (
    Column("system", "system"),
    Column("files_per_trigger", "files a trigger"),
    Column("rows_per_second", "rows/s", ",.0f"),
    Column("seconds", "s", ".2f"),
    Column("least", "least", ".2f"),
    Column("most", "most", ".2f"),
    Column("epochs", "epochs"),
    Column("equal", "equal"),
)

ADAPTER = Experiment(
    name="adapter",
    title="Any Spark source through the adapter, beside Spark native",
    note="Workload tumble: the same files, read by Structured Streaming for both; each side with the batch size "
    "that it did best with, in turns, every run in a process of its own.",
    columns=SYSTEM_COLUMNS,
    measure=measure,
)
