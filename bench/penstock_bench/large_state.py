"""State much larger than the memory of the sites: a band join that keeps all of its rows.

`python -m penstock_bench.large_state --gb 4 --text 200 --memory 400MB`

It makes two streams of rows with texts, joins them, and reports the longest epoch, the largest resident memory of a
worker and the rate; and whether the results are those of DuckDB over the same files. With `--one-group` there is one
site with one partition group.
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
from pathlib import Path

import duckdb
import numpy as np
import numpy.typing as npt
import psutil
import pyarrow as pa
import pyarrow.parquet as pq

import penstock as ps
from penstock.events import EpochCommitted, Event
from penstock.units import size, span

FILE_BYTES, OTHER_BYTES = 100_000_000, 40  # of a file; of a row beside its text
PERIOD = 0.1  # seconds between two samples of the memory
MEGABYTE = 1e6


@dataclass(frozen=True)
class Outcome:
    """What a run took. Memory is that of the worker that took most, in bytes; `state` is on disk at the end."""

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
    state: int
    exact: bool


def write_stream(folder: Path, rows: int, text: int, seed: int) -> None:
    """Write one stream as Parquet files: times that ascend, keys of which each has about one row, texts."""
    folder.mkdir(parents=True)
    random, per_file = np.random.default_rng(seed), max(100, FILE_BYTES // (text + OTHER_BYTES))
    letters = random.integers(97, 123, 4 * text + 1_000_000, np.uint8)
    for number, first in enumerate(range(0, rows, per_file)):
        count = min(per_file, rows - first)
        times = pa.array(1000 * (first + np.arange(count)), pa.timestamp("us"))
        table = pa.table(
            {"ts": times, "k": random.integers(0, rows, count), "text": _texts(random, letters, count, text)}
        )
        pq.write_table(
            table, folder / f"{number:05}.parquet", max(50, per_file // 10), compression="none", use_dictionary=False
        )


def _texts(
    random: np.random.Generator, letters: npt.NDArray[np.uint8], count: int, length: int
) -> pa.Array[pa.StringScalar]:
    """Return texts that are pieces of one block of letters."""
    starts = random.integers(0, len(letters) - length, count)
    values = b"".join(letters[at : at + length].tobytes() for at in starts.tolist())
    offsets = pa.py_buffer((np.arange(count + 1) * length).astype(np.int32).tobytes())
    return pa.StringArray.from_buffers(count, offsets, pa.py_buffer(values))


@contextmanager
def worker_memory() -> Iterator[dict[int, list[int]]]:
    """Sample the resident memory of this process and all Python processes below it: [first, largest] by process."""
    seen: dict[int, list[int]] = {}
    stop = threading.Event()

    def sample() -> None:
        while not stop.wait(PERIOD):
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


def run(folder: Path, asked: argparse.Namespace) -> Outcome:
    """Run the join over the streams in `folder`."""
    rows = int(asked.gb * 1e9 / 2 / (asked.text + OTHER_BYTES))
    for seed, name in enumerate(("left", "right")):
        if not (folder / name).exists():
            write_stream(folder / name, rows, asked.text, seed)
    epochs: list[EpochCommitted] = []

    def on_event(event: Event) -> None:
        if isinstance(event, EpochCommitted):
            epochs.append(event)
            if len(epochs) % 20 == 0:
                _show(epochs, seen)

    left, right = (
        ps.read.files(str(folder / name / "*.parquet"), time="ts", progress=ps.slack("1s"))
        for name in ("left", "right")
    )
    join = left.join(right, on="k", within=("365d", "365d"))
    results = join.select("k", a=ps.col("text"), b=ps.col("right_text")).where(ps.col("k") >= 0)
    sites = 1 if asked.one_group else asked.sites
    began = time.perf_counter()
    with worker_memory() as seen:
        results.to.files(str(folder / "out")).start(
            checkpoint=str(folder / "checkpoint"), sites=sites, groups_per_site=1 if asked.one_group else 16,
            memory=asked.memory, deadline=asked.deadline, buffer_rows=asked.buffer_rows, master=asked.master,
            on_event=on_event, policy="static",
        ).wait()  # fmt: skip
    seconds = time.perf_counter() - began
    state = sum(file.stat().st_size for file in (folder / "checkpoint" / "runs").iterdir())
    first, largest = max(seen.values(), key=lambda pair: pair[1])
    return Outcome(
        2 * rows, sum(e.rows_out for e in epochs), seconds, 2 * rows / seconds, len(epochs),
        max(e.seconds for e in epochs), span(asked.deadline) / 1e6,
        largest, first, size(asked.memory) * sites, state, is_exact(folder),
    )  # fmt: skip


def _show(epochs: list[EpochCommitted], seen: dict[int, list[int]]) -> None:
    longest, rows = max(e.seconds for e in epochs[-20:]), sum(e.rows_in for e in epochs)
    most = max((largest for _, largest in seen.values()), default=0)
    print(
        f"epoch {epochs[-1].epoch}: {rows:,} rows, longest of 20 epochs {longest:.2f} s, "
        f"worker {most / MEGABYTE:.0f} MB, {epochs[-1].backlog:,} rows wait",
        file=sys.stderr,
    )


def is_exact(folder: Path) -> bool:
    """Return whether the results are those of DuckDB: as many rows, with the same sum of hashes."""
    rows = "count(*), sum(hash(k, a, b)::HUGEINT)"
    found = duckdb.sql(f"SELECT {rows} FROM '{folder}/out/*.parquet'").fetchall()
    batch = (
        f"SELECT l.k, l.text a, r.text b FROM '{folder}/left/*.parquet' l JOIN '{folder}/right/*.parquet' r USING (k)"
    )
    wanted = duckdb.sql(f"SELECT {rows} FROM ({batch})").fetchall()
    return len(found) == 1 and found == wanted


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
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
        print(json.dumps(asdict(run(folder, asked)), indent=1))


if __name__ == "__main__":
    main()
