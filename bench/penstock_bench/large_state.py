"""State much larger than the memory of the sites: joins of two or three streams, and an aggregate with many groups.

`python -m penstock_bench.large_state --query band --gb 4 --text 200 --memory 400MB`

It writes the input, runs the query, and reports the longest epoch, the largest resident memory of a worker and the
rate; and whether the results are those of DuckDB over the same files. With `--one-group` there is one site with one
partition group.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from math import log2
from pathlib import Path

import duckdb
import psutil

from penstock.events import EpochCommitted, Event
from penstock.units import size, span
from penstock_bench.large_queries import (
    OTHER_BYTES,
    BandJoin,
    LargeQuery,
    ManyGroups,
    ThreeWayJoin,
    read_input,
    write_input,
)

PERIOD = 0.1  # seconds between two samples of the memory
MEGABYTE = 1e6


@dataclass(frozen=True)
class Outcome:
    """What a run took. Memory is that of the worker that took most, in bytes."""

    rows: int
    results: int
    seconds: float
    rows_per_second: float
    epochs: int
    longest_epoch: float
    deadline: float
    worker_memory: int
    idle_worker: int
    budget: int
    exact: bool


@contextmanager
def worker_memory() -> Iterator[dict[int, list[int]]]:
    """Sample the resident memory of this process and all Python processes below it: [first, largest] by process."""
    seen: dict[int, list[int]] = {}
    stop = threading.Event()

    def sample() -> None:
        ended = False
        while not ended:  # once more after the end: a short run has a sample, too
            ended = stop.wait(PERIOD)
            for process in (psutil.Process(), *psutil.Process().children(recursive=True)):
                try:
                    if "python" in process.name():
                        about = process.memory_info()
                        first, largest = seen.setdefault(process.pid, [about.rss, about.rss])
                        seen[process.pid] = [first, max(largest, about.rss)]
                except psutil.Error:
                    continue  # it has ended

    sampler = threading.Thread(target=sample, daemon=True)
    sampler.start()
    try:
        yield seen
    finally:
        stop.set()
        sampler.join()


def query_of(asked: argparse.Namespace) -> LargeQuery:
    """Return the query that the command asks for."""
    state = int(asked.gb * 1e9)
    match asked.query:
        case "band":
            kept = state // 2 // (asked.text + OTHER_BYTES)
            windows = asked.windows
            return BandJoin(kept, asked.text) if windows is None else BandJoin(kept * windows, asked.text, kept)
        case "three-way":
            return ThreeWayJoin(state // 3 // (asked.text + OTHER_BYTES), asked.text)
    return ManyGroups(1 << round(log2(state / OTHER_BYTES)))


def run(query: LargeQuery, folder: Path, asked: argparse.Namespace) -> Outcome:
    """Run the query over its streams in `folder`."""
    write_input(query, folder)
    epochs: list[EpochCommitted] = []

    def on_event(event: Event) -> None:
        if isinstance(event, EpochCommitted):
            epochs.append(event)
            if len(epochs) % 20 == 0:
                _show(epochs, seen)

    results = query.results(*read_input(query, folder))
    sites = 1 if asked.one_group else asked.sites
    began = time.perf_counter()
    with worker_memory() as seen:
        results.to.files(str(folder / "out")).start(
            checkpoint=str(folder / "checkpoint"), sites=sites, groups_per_site=1 if asked.one_group else 16,
            memory=asked.memory, deadline=asked.deadline, buffer_rows=asked.buffer_rows, master=asked.master,
            on_event=on_event, policy="static",
        ).wait()  # fmt: skip
    seconds, rows = time.perf_counter() - began, query.rows * len(query.streams)
    first, largest = max(seen.values(), key=lambda pair: pair[1])
    return Outcome(
        rows, sum(e.rows_out for e in epochs), seconds, rows / seconds, len(epochs),
        max(e.seconds for e in epochs), span(asked.deadline) / 1e6,
        largest, first, size(asked.memory) * sites, is_exact(query, folder),
    )  # fmt: skip


def _show(epochs: list[EpochCommitted], seen: dict[int, list[int]]) -> None:
    longest, rows = max(e.seconds for e in epochs[-20:]), sum(e.rows_in for e in epochs)
    most = max((largest for _, largest in seen.values()), default=0)
    print(
        f"epoch {epochs[-1].epoch}: {rows:,} rows, longest of 20 epochs {longest:.2f} s, "
        f"worker {most / MEGABYTE:.0f} MB, {epochs[-1].backlog:,} rows wait",
        file=sys.stderr,
    )


def is_exact(query: LargeQuery, folder: Path) -> bool:
    """Return whether the results are those of DuckDB: as many rows, with the same sum of hashes."""
    tables = [f"'{folder}/{name}/*.parquet'" for name in query.streams]
    found, wanted = (
        duckdb.sql(f"SELECT count(*), sum(hash(r)::HUGEINT) FROM ({rows}) r").fetchall()
        for rows in (f"FROM '{folder}/out/*.parquet'", query.batch(*tables))
    )
    return len(found) == 1 and found == wanted


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--query", choices=["band", "three-way", "groups"], default="band")
    parser.add_argument("--windows", type=int, help="join rows that are near: the streams are so many times the state")
    parser.add_argument("--gb", type=float, default=2.0, help="state, in 1e9 bytes")
    parser.add_argument("--text", type=int, default=200, help="bytes of the text of a row")
    parser.add_argument("--memory", default="400MB", help="memory of a site")
    parser.add_argument("--deadline", default="1s")
    parser.add_argument("--sites", type=int, default=2)
    parser.add_argument("--buffer-rows", type=int, default=5_000_000)
    parser.add_argument("--one-group", action="store_true", help="one site with one partition group")
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--folder", type=Path, help="keep the input here for other runs")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="penstock-large-") as scratch:
        folder = asked.folder or Path(scratch)
        for old in ("out", "checkpoint"):
            shutil.rmtree(folder / old, ignore_errors=True)
        print(json.dumps(asdict(run(query_of(asked), folder, asked)), indent=1))


if __name__ == "__main__":
    main()
