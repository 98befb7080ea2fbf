"""The process of `adapter`: workload `tumble` on Penstock, with rows that Structured Streaming reads."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import penstock as ps
from penstock.bench.also.part import serve
from penstock.bench.child import Job, RunResult
from penstock.bench.memory import PeakMemory
from penstock.bench.streams import stream_named
from penstock.bench.systems import count_rows
from penstock.bench.workload import SLACK_SECONDS
from penstock.bench.workloads.windows import TUMBLE


def measure(job: Job) -> RunResult:
    if job.warm_dir is not None:
        _run(job, Path(job.warm_dir), Path(job.scratch) / "warm")
        shutil.rmtree(Path(job.scratch) / "warm")
    return _run(job, Path(job.data_dir), Path(job.scratch) / "out")


def _run(job: Job, data: Path, out: Path) -> RunResult:
    """The clock runs from the start of the query to its end, as for the peers."""
    windows, cores = tumbled(data, job.limits.cores, job.limits.files_per_trigger), job.limits.cores
    with PeakMemory() as memory:
        began = time.perf_counter()
        ready = windows.to.files(str(out / "rows"))
        run = ready.start(str(out / "checkpoint"), sites=cores, master=f"local[{cores}]").wait()
        seconds = time.perf_counter() - began
    done = run.progress
    return RunResult(seconds, done.rows_in, count_rows(out / "rows"), memory.peak, str(out / "rows"), done.epochs)


def tumbled(data: Path, cores: int, files: int) -> ps.Stream:
    """The question of the workload over a streaming frame of its files."""
    from penstock.bench.spark_native_live import frame_of_files, session_on
    from penstock.runtime.session import spark_context

    (name,) = TUMBLE.streams
    stream = stream_named(name)
    frame = frame_of_files(session_on(spark_context(f"local[{cores}]")), data / name, stream.schema, files)
    rows = ps.read.spark(
        frame,
        time=stream.time,
        progress=ps.slack(f"{SLACK_SECONDS}s"),
        trigger={"availableNow": True},
        bounded=True,
        name=name,
    )
    return rows.group_by("k").window(ps.tumbling("10s")).agg(n=ps.count(), s=ps.sum("v"))


if __name__ == "__main__":
    serve(Job, measure)
