"""Penstock as a system under measurement, through its public API only."""

from __future__ import annotations

import time
from pathlib import Path

import penstock as ps
from penstock.bench.systems import Limits, Outcome, System
from penstock.bench.workloads import SLACK_SECONDS, WindowAggregate, Workload


class Penstock:
    """The same workloads on Penstock, with as many sites as cores and a fresh checkpoint per run."""

    name = "penstock"

    def __init__(self, limits: Limits) -> None:
        self._limits = limits

    def prepare(self) -> None:
        """The first run starts the Spark session, and it stays: the warm-up run pays for it."""

    def run(self, workload: Workload, data_dir: Path, out_dir: Path) -> Outcome:
        result, cores = out_dir / "rows", self._limits.cores
        ready = _window_aggregate(workload.query, data_dir).to.files(str(result))
        # The clock is the harness's own, as for the peers: `run.progress.seconds` leaves out planning and opening.
        began = time.perf_counter()
        run = ready.start(checkpoint=str(out_dir / "checkpoint"), sites=cores, master=f"local[{cores}]")
        run.wait()
        seconds = time.perf_counter() - began
        return Outcome(seconds, run.progress.rows_in, run.progress.rows_out, str(result))

    def close(self) -> None:
        """The session ends with the process."""


def penstock(limits: Limits, scratch: Path) -> System:
    return Penstock(limits)


def _window_aggregate(query: WindowAggregate, data_dir: Path) -> ps.Stream:
    pattern = str(data_dir / query.stream / "*.parquet")
    rows = ps.read.files(pattern, time="ts", progress=ps.slack(f"{SLACK_SECONDS}s"))
    key = ps.col("k") if query.key_modulo is None else ps.col("k") % query.key_modulo
    window = ps.sliding(f"{query.size}s", every=f"{query.slide}s")
    return rows.group_by(k=key).window(window).agg(n=ps.count(), s=ps.sum("v"))
