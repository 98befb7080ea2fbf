"""The runs of `adapt-skew`: Penstock under its policies and Spark, over the same rows, in turns."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from penstock_bench.adapt.timeline import Timeline
from penstock_bench.adapt.watched_run import Option, Question
from penstock_bench.experiments.experiment import Setting
from penstock_bench.experiments.part import Part
from penstock_bench.rows.data import ensure_data
from penstock_bench.run.child import Job
from penstock_bench.run.launch import launch
from penstock_bench.run.pairs import Pair
from penstock_bench.run.runner import check
from penstock_bench.system import Limits, system_named
from penstock_bench.workload import Workload
from penstock_bench.workloads import workload_named

MODULE = "penstock_bench.adapt.skew_run"
SPARK = "spark"
SITES = 2
SETTINGS: dict[str, Option] = {"sites": SITES, "epoch_seconds": 0.1, "round_seconds": 0.4}
WARM_ROWS, SPARK_WARM_ROWS = 100_000, 10_000


@dataclass(frozen=True)
class SkewTrial:
    """A run of `query` over keys of a kind, by `run`: a policy of Penstock, or Spark; over `rows` rows a stream."""

    query: str
    kind: str
    run: str
    rows: int
    rows_in: int
    rows_out: int
    seconds: float
    changes: int
    equal: bool

    @property
    def rate(self) -> float:
        """Rows in plus rows out, per second."""
        return (self.rows_in + self.rows_out) / self.seconds


@dataclass(frozen=True)
class SkewCase:
    """What is run over how many rows of each stream."""

    query: str
    kind: str
    run: str
    rows: int

    @property
    def workload(self) -> Workload:
        return workload_named(f"{self.query}-{self.kind}")


def trials(setting: Setting, cases: list[SkewCase], repeat: int) -> Iterator[SkewTrial]:
    """Penstock's runs in turns, in one process that is warm; then Spark's, each once, in processes of their own."""
    folder = setting.folder("adapt-skew")
    own = [case for case in cases if case.run != SPARK]
    with (
        tempfile.TemporaryDirectory(dir=folder) as scratch,
        Part(MODULE, folder / "adapt-skew.log", setting.cores) as part,
    ):
        for case in dict.fromkeys(own):
            part.ask(_question(setting, case, scratch, min(case.rows, WARM_ROWS)), Timeline)
        for case in own * repeat:
            seen = part.ask(_question(setting, case, scratch, case.rows), Timeline)
            yield _told(setting, trial_of(case, seen))
    for case in cases:
        if case.run == SPARK:
            yield _told(setting, _spark(setting, case, folder))


def _told(setting: Setting, trial: SkewTrial) -> SkewTrial:
    verdict = "equal" if trial.equal else "NOT EQUAL"
    setting.tell(
        f"{trial.query}, {trial.kind}, {trial.run}: {trial.rate:,.0f} rows/s, {trial.changes} changes, {verdict}"
    )
    return trial


def trial_of(case: SkewCase, seen: Timeline) -> SkewTrial:
    """Without the first epoch, which starts processes."""
    rows_in, rows_out = (sum(getattr(epoch, side) for epoch in seen.epochs) for side in ("rows_in", "rows_out"))
    counts = (case.rows, rows_in, rows_out)
    return SkewTrial(case.query, case.kind, case.run, *counts, seen.seconds, len(seen.changes), seen.equal)


def _question(setting: Setting, case: SkewCase, scratch: str, rows: int) -> Question:
    return Question(
        workload=case.workload.name,
        data=str(_data(setting, case, rows)),
        scratch=f"{scratch}/run",
        settings={**SETTINGS, "policy": case.run},
        master=setting.master,
        cores=setting.cores,
    )


def _data(setting: Setting, case: SkewCase, rows: int) -> Path:
    return ensure_data(setting.folder(f"data-{rows}"), rows, case.workload.streams)


def _spark(setting: Setting, case: SkewCase, folder: Path) -> SkewTrial:
    pair = Pair(case.workload, system_named(SPARK), Limits(cores=setting.cores, memory_gib=4))
    data, warm = _data(setting, case, case.rows), _data(setting, case, SPARK_WARM_ROWS)
    scratch = folder / "spark"
    job = Job(SPARK, case.workload.name, str(data), str(warm), str(scratch), pair.limits)
    try:
        seen = check(pair, launch(job, folder / "adapt-skew-spark.log"), data)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    counts = (case.rows, seen.rows_in, seen.rows_out)
    return SkewTrial(case.query, case.kind, SPARK, *counts, seen.seconds, 0, seen.equal)
