"""The process of `adapter`: workload `tumble` on Penstock, with rows that Structured Streaming reads."""

from __future__ import annotations

import time
from pathlib import Path

import penstock as ps
from penstock_bench.experiments.part import serve
from penstock_bench.rows.streams import stream_named
from penstock_bench.run.child import Job, RunResult, measured
from penstock_bench.system import Limits, Outcome, count_rows
from penstock_bench.workload import SLACK_SECONDS, Workload
from penstock_bench.workloads.windows import TUMBLE


class Adapter:
    """Penstock behind Structured Streaming, as a system that is measured like all others."""

    name = "penstock, adapter"

    def __init__(self, limits: Limits) -> None:
        self._limits = limits

    def prepare(self) -> None:
        """The first run starts Spark."""

    def run(self, workload: Workload, data_dir: Path, out_dir: Path) -> Outcome:
        """The clock runs from the start of the query to its end, as for the peers."""
        cores = self._limits.cores
        windows, rows = tumbled(data_dir, cores, self._limits.files_per_trigger), out_dir / "rows"
        began = time.perf_counter()
        query = windows.to.files(str(rows), compression="none")
        run = query.start(str(out_dir / "checkpoint"), sites=cores, master=f"local[{cores}]")
        done = run.wait().progress
        return Outcome(time.perf_counter() - began, done.rows_in, count_rows(rows), str(rows), done.epochs)

    def close(self) -> None:
        """Spark ends with the process."""


def measure(job: Job) -> RunResult:
    return measured(Adapter(job.limits), job)


def tumbled(data: Path, cores: int, files: int) -> ps.Stream:
    """The question of the workload over a streaming frame of its files."""
    from penstock.spark.session import spark_context
    from penstock_bench.systems.spark_live import frame_of_files, session_on

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
