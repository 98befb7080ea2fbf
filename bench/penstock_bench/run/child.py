"""One measured run in a process of its own: `python -m penstock_bench.run.child` reads a job as JSON from standard
input and writes its result as one line of JSON. So a system's settings, its JVM and its memory are its own.

The same query over a little data runs first, unmeasured: classes are loaded, code is compiled, memory is there.
"""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import msgspec
import pyarrow as pa

from penstock_bench.profile.shares import EpochProfile
from penstock_bench.run.memory import PeakMemory
from penstock_bench.system import Limits, Outcome, System, create
from penstock_bench.workloads import workload_named

SHORT_SECONDS = 5.0
WARM_SECONDS = 5.0  # over a tenth of the rows: a run over all of them is then not too long
WARMING_SECONDS = 5.0  # of runs over all of them


@dataclass(frozen=True)
class Job:
    """What the child is to do. `scratch` belongs to the job alone: results and temporary files are written there.
    Without `warm_dir` there is no warm-up."""

    system: str
    workload: str
    data_dir: str
    warm_dir: str | None
    scratch: str
    limits: Limits


@dataclass(frozen=True)
class RunResult:
    """What came of it. `result_path` is a folder of Parquet files; the rest is as in `Outcome`."""

    seconds: float
    rows_in: int
    rows_out: int
    peak_memory_bytes: int
    result_path: str
    epochs: int = 0
    profiles: tuple[EpochProfile, ...] = ()


def execute(job: Job) -> RunResult:
    """Measure one run of the system that the job names."""
    return measured(create(job.system, job.limits, Path(job.scratch) / "system"), job)


def measured(system: System, job: Job) -> RunResult:
    """Prepare a system, warm it up, and measure one run."""
    system.prepare()
    try:
        if job.warm_dir is not None:
            _warm_up(system, job, Path(job.warm_dir))
        return _measure(system, job)
    finally:
        system.close()


def _warm_up(system: System, job: Job, data: Path) -> None:
    """Twice over little data, for the first run also starts processes; then over all of it for some seconds, unless
    that is long: what takes long becomes warm on its way."""
    _run_once(system, job, data)
    if _run_once(system, job, data) > WARM_SECONDS:
        return
    warm = 0.0
    while warm < WARMING_SECONDS:
        warm += _run_once(system, job, Path(job.data_dir))


def _run_once(system: System, job: Job, data: Path) -> float:
    """How long a run takes of which nothing is kept."""
    out = _empty(Path(job.scratch) / "warm")
    did = system.run(workload_named(job.workload), data, out)
    shutil.rmtree(out)
    return did.seconds


def _measure(system: System, job: Job) -> RunResult:
    """Looking at the memory of a process tree takes some ten milliseconds, so it is done once a second; a run of a few
    seconds is run once more to see its peak."""
    did, peak = _run(system, job, 1.0)
    if did.seconds < SHORT_SECONDS:
        _, peak = _run(system, job, 0.05, "again")
    return RunResult(did.seconds, did.rows_in, did.rows_out, peak, did.result_path, did.epochs, did.profiles)


def _run(system: System, job: Job, period: float, folder: str = "out") -> tuple[Outcome, int]:
    """One run, and the peak of its memory, looked at every `period` seconds."""
    out = _empty(Path(job.scratch) / folder)
    with PeakMemory(period) as memory:
        did = system.run(workload_named(job.workload), Path(job.data_dir), out)
    return did, memory.peak


def _empty(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def keep_to_cores(cores: int) -> None:
    """Bind this process and all it starts to the first `cores` of its processors: the same for every system."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cores])
    pa.set_cpu_count(cores)


def claim_stdout() -> BinaryIO:
    """The real standard output; from now on whatever libraries or a JVM print goes to standard error."""
    answer = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return answer


def main() -> None:
    answer = claim_stdout()
    job = msgspec.json.decode(sys.stdin.buffer.read(), type=Job)
    keep_to_cores(job.limits.cores)
    result = execute(job)
    answer.write(msgspec.json.encode(result) + b"\n")
    answer.close()


if __name__ == "__main__":
    main()
