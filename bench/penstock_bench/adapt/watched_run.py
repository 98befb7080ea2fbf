"""The process of the experiments on adapting: runs of a workload, slowed, watched from outside."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import psutil

from penstock.api.run_options import RunOptions
from penstock.events import EpochCommitted
from penstock_bench.adapt.notes import Notes
from penstock_bench.adapt.slowdown import Slowdown, Slowed, slowable, write_slowdown
from penstock_bench.adapt.timeline import Timeline
from penstock_bench.adapt.variants import make_known
from penstock_bench.check.oracle import equal
from penstock_bench.experiments.part import serve
from penstock_bench.systems.penstock import query_of
from penstock_bench.workload import Workload
from penstock_bench.workloads import workload_named

Option = str | int | float | None
Check = Callable[[Path, Workload, Path], bool]


@dataclass(frozen=True)
class Question:
    """Run a workload over `data` with some settings. Each row takes `row_seconds` of sleep; the times at which sites
    are `slowed` count from the end of the first epoch. Relative to `master`, the machine has `cores`."""

    workload: str
    data: str
    scratch: str
    settings: dict[str, Option]
    row_seconds: float = 0.0
    slowed: tuple[Slowed, ...] = ()
    master: str = "local[8]"
    cores: int = 2


class Watch(Notes):
    """The slowdown begins with the end of the first epoch, which does not count itself: it starts processes."""

    def __init__(self, question: Question, file: Path) -> None:
        super().__init__(time.monotonic)
        self._question, self._file = question, file
        self.began: float | None = None

    def _committed(self, event: EpochCommitted) -> None:
        if self.began is not None:
            super()._committed(event)
            return
        self.began, self.backlog = self.clock(), event.backlog
        write_slowdown(Slowdown(time.time(), self._question.row_seconds, self._question.slowed), self._file)


def compared(rows: Path, workload: Workload, data: Path) -> bool:
    """Whether the results are the batch answer."""
    return equal(rows, workload, data).equal


def watched(question: Question, right: Check = compared) -> Timeline:
    with slowable(question.master) as file:
        write_slowdown(Slowdown(time.time(), question.row_seconds), file)
        return _watched(question, Watch(question, file), right)


def _watched(question: Question, watch: Watch, right: Check) -> Timeline:
    scratch, workload, cpu = Path(question.scratch), workload_named(question.workload), cpu_seconds()
    try:
        query = query_of(workload, Path(question.data), scratch / "rows")
        settings = cast(RunOptions, {"master": question.master, "on_event": watch.observe, **question.settings})
        began = time.monotonic()
        query.start(str(scratch / "checkpoint"), **settings).wait()
        busy = (cpu_seconds() - cpu) / (question.cores * (time.monotonic() - began))
        verdict = right(scratch / "rows", workload, Path(question.data))
        return watch.timeline(watch.began or began, busy, verdict)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def cpu_seconds() -> float:
    """Of this process and all below it."""
    root = psutil.Process()
    return sum(_own_cpu(process) for process in [root, *root.children(recursive=True)])


def _own_cpu(process: psutil.Process) -> float:
    try:
        times = process.cpu_times()
        return float(times.user + times.system)
    except psutil.Error:
        return 0.0  # it ended between being listed and being asked


if __name__ == "__main__":
    make_known()
    serve(Question, watched)
