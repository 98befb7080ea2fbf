"""The process of the experiments whose rows arrive while a join runs: it feeds the rows, watches, and checks."""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import duckdb
import numpy as np
import pyarrow.parquet as pq

import penstock as ps
from penstock.api.handle import Run
from penstock.api.run_options import RunOptions
from penstock.api.streams import Stream
from penstock.api.write import Ready
from penstock.types import time_values
from penstock_bench.adapt.arriving import PERIOD, STREAMS, Arrivals, feed, prepared
from penstock_bench.adapt.live_seen import LiveSeen, Produced
from penstock_bench.adapt.live_watch import LiveWatch
from penstock_bench.adapt.slowdown import Slowdown, slowable, write_slowdown
from penstock_bench.adapt.variants import make_known
from penstock_bench.adapt.watched_run import Option, cpu_seconds
from penstock_bench.check.digest import digest, parquet
from penstock_bench.experiments.arrivals import published_by_penstock
from penstock_bench.experiments.part import serve

BAND_SECONDS = 2
PATIENCE = 300.0
LOOK = 0.02


@dataclass(frozen=True)
class Question:
    """Run the join over what arrives, with some settings; each row costs `row_seconds` of sleep."""

    arrivals: Arrivals
    scratch: str
    settings: dict[str, Option]
    row_seconds: float = 0.0
    master: str = "local[8]"
    cores: int = 2


def live(question: Question) -> LiveSeen:
    """The first period arrives by itself, and starts the processes of the run; the clock starts after it."""
    with slowable(question.master) as file:
        write_slowdown(Slowdown(time.time(), question.row_seconds), file)
        return _live(question)


def _live(question: Question) -> LiveSeen:
    scratch, watch = Path(question.scratch), LiveWatch()
    for stream in STREAMS:
        (scratch / "rows" / stream).mkdir(parents=True)
    try:
        files = prepared(question.arrivals, scratch / "hidden")
        settings = cast(RunOptions, {"master": question.master, "on_event": watch.observe, **question.settings})
        run = query_of(scratch).start(str(scratch / "checkpoint"), **settings)
        return _watched(run, watch, files, question)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def query_of(scratch: Path) -> Ready:
    left, right = (_source(scratch / "rows" / stream, stream) for stream in STREAMS)
    return left.join(right, on="k", within=f"{BAND_SECONDS}s").to.files(str(scratch / "results"))


def _source(folder: Path, name: str) -> Stream:
    types = {"ts": "TIMESTAMP", "k": "BIGINT", "v": "DOUBLE"}
    return ps.read.files(f"{folder}/*.parquet", time="ts", progress=ps.ordered(), follow=True, schema=types, name=name)


def _watched(run: Run, watch: LiveWatch, files: Sequence[Sequence[Path]], question: Question) -> LiveSeen:
    rows = Path(question.scratch) / "rows"
    moments = feed(files[:1], rows)
    _wait_until_through(run, watch, question.arrivals.rows_until(1))
    began, cpu = time.time() - PERIOD, cpu_seconds()  # the first period is over when the second begins
    moments += feed(files[1:], rows)
    _wait_until_through(run, watch, question.arrivals.rows_until(len(files)))
    used = cpu_seconds() - cpu
    run.stop()
    busy = used / (question.cores * (time.time() - began))
    return watch.seen(began, produced(Path(question.scratch) / "results", began, moments), used, busy, _right(question))


def _wait_until_through(run: Run, watch: LiveWatch, rows: int) -> None:
    """Until so many rows have been worked through."""
    stop = time.monotonic() + PATIENCE
    while watch.done < rows:
        if not run.running:
            run.wait()
        if time.monotonic() > stop:
            raise TimeoutError(f"{watch.done} of {rows} rows were through after {PATIENCE:.0f} s")
        time.sleep(LOOK)


def produced(results: Path, began: float, moments: Sequence[float]) -> tuple[Produced, ...]:
    """What each file of results has of the rows of each period, without the first, which waited for processes."""
    found = []
    for moment, path in published_by_penstock(results):
        times = pq.read_table(path, columns=["ts", "right_ts"])
        newer = np.maximum(*(time_values(column) for column in times.columns)) // round(PERIOD * 1e6)
        for period, count in zip(*np.unique(newer[newer > 0], return_counts=True), strict=True):
            arrived = moments[int(period)]
            found.append(Produced(arrived - began, moment - arrived, int(count)))
    return tuple(found)


def _right(question: Question) -> bool:
    """Whether the results are the pairs of all rows that arrived."""
    scratch, band = Path(question.scratch), f"INTERVAL '{BAND_SECONDS}' SECOND"
    left, right = (parquet(scratch / "rows" / stream) for stream in STREAMS)
    pairs = f"""(SELECT x.k, x.ts, x.v, y.ts AS right_ts, y.v AS right_v FROM {left} AS x JOIN {right} AS y
                 ON x.k = y.k AND y.ts BETWEEN x.ts - {band} AND x.ts + {band})"""
    exact = ("k", "epoch_us(ts)", "epoch_us(right_ts)", "v", "right_v")
    with duckdb.connect() as connection:
        expected = digest(connection, pairs, exact)
        return expected.rows > 0 and expected.same(digest(connection, parquet(scratch / "results"), exact))


if __name__ == "__main__":
    make_known()
    serve(Question, live)
