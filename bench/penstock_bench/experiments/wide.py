"""`wide`: rows of 50 columns, many of them strings, on Penstock and on Spark."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.errors import PenstockError
from penstock_bench.experiments.adapter import SYSTEM_COLUMNS, record
from penstock_bench.experiments.experiment import Bar, Experiment, Finding, Setting
from penstock_bench.run.measurement import Measurement
from penstock_bench.run.runner import DEFAULT_ROWS, run_bench
from penstock_bench.system import Limits

BAR = 5.0
WORKLOAD = "wide"
SYSTEMS = ("penstock", "spark")


def measure(setting: Setting) -> Finding:
    rows, batches = (50_000, ()) if setting.quick else (DEFAULT_ROWS, (1, 2, 5))
    measured = run_bench(
        [WORKLOAD],
        SYSTEMS,
        rows,
        setting.repeat,
        setting.work,
        limits=Limits(cores=setting.cores),
        files_per_trigger=batches,
        tell=setting.tell,
    )
    return finding(measured)


def finding(measured: Sequence[Measurement]) -> Finding:
    for one in measured:
        if not one.trials:
            raise PenstockError(f"{one.system} gave no result for workload {WORKLOAD}", detail=one.failed or "")
    ours, theirs = measured
    bar = Bar("wide rows, of Spark native", ours.rows_per_second / theirs.rows_per_second, "at least", BAR)
    return Finding(tuple(map(record, measured)), (bar,), all(one.holds for one in measured))


WIDE = Experiment(
    name="wide-rows",
    title="Rows of 50 columns beside Spark native",
    note="Workload wide: the same files, in turns, every run in a process of its own; Spark with the batch size "
    "that it did best with.",
    columns=SYSTEM_COLUMNS,
    measure=measure,
)
