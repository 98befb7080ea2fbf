"""Runs a job in a process of its own and reads back its result."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import msgspec

import penstock
import penstock_bench
from penstock.errors import PenstockError
from penstock_bench.run.child import Job, RunResult

_TAIL_LINES = 12


def launch(job: Job, log: Path) -> RunResult:
    """The result of the job; what the process printed is in `log`."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as errors:
        process = subprocess.run(
            [sys.executable, "-m", "penstock_bench.run.child"],
            input=msgspec.json.encode(job),
            stdout=subprocess.PIPE,
            stderr=errors,
            env=os.environ | child_environment(),
            check=False,
        )
    if process.returncode:
        raise child_failed(f"{job.system} failed on workload {job.workload}", log, process.returncode)
    return msgspec.json.decode(process.stdout, type=RunResult)


def child_environment() -> dict[str, str]:
    """Of any process of a benchmark: Spark stays on this host; it finds the same Penstock and the same benchmark, also
    from a checkout that is not installed."""
    homes = [str(Path(package.__file__).parents[1]) for package in (penstock, penstock_bench) if package.__file__]
    path = os.pathsep.join(filter(None, [*homes, os.environ.get("PYTHONPATH")]))
    return {"PYTHONPATH": path, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}


def child_failed(what: str, log: Path, code: int) -> PenstockError:
    """`what` has ended with that exit code; the error shows the end of its log."""
    lines = log.read_text(errors="replace").splitlines()
    return PenstockError(
        f"{what} (exit code {code})",
        detail="\n".join(lines[-_TAIL_LINES:]),
        hint=f"the whole output is in {log}",
    )
