"""Rows that arrive at a rate: a file for every period of event time, made visible in that pace by a rename; and when
the results of each period came out.

The window of a period is complete with the first row of the next period, so with the next file. A result is published
when the file that it is in can be seen: a rename, whose moment is the file's change time. Of Spark's files those count
that its sink lists, from the moment at which it lists them; earlier they may be half written.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from urllib.parse import unquote, urlparse

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from penstock_bench.experiments.files_made import write_files
from penstock_bench.experiments.live_run import PERIOD
from penstock_bench.experiments.scripted import Step

Clock = Callable[[], float]


def prepared(folder: Path, rate: float, seconds: float) -> list[Path]:
    """Files that nobody looks at yet, of the rows that arrive at `rate` rows per second of event time."""
    periods, rows = round(seconds * 1e6 / PERIOD), max(1, round(rate * PERIOD / 1e6))
    return write_files(folder, (Step("x", rows, n * PERIOD, (n + 1) * PERIOD, keys=100_000) for n in range(periods)))


def feed(files: Sequence[Path], into: Path, clock: Clock = time.time) -> list[float]:
    """Move the files to where they are seen, one per period; gives the moment of each."""
    began, moments = clock(), []
    for number, file in enumerate(files):
        _wait_until(began + number * PERIOD / 1e6, clock)
        moments.append(clock())
        os.rename(file, into / file.name)
    return moments


def _wait_until(moment: float, clock: Clock) -> None:
    while (left := moment - clock()) > 0:
        time.sleep(left)


def published_by_penstock(rows: Path) -> Iterator[tuple[float, Path]]:
    """Every result file with the moment of its rename."""
    for path in rows.glob("*.parquet"):
        yield path.stat().st_ctime, path


def published_by_spark(rows: Path) -> Iterator[tuple[float, Path]]:
    """Every result file with the moment at which the sink's log listed it first."""
    seen: set[str] = set()
    for log in sorted((rows / "_spark_metadata").glob("[0-9]*"), key=lambda path: int(path.name.partition(".")[0])):
        for entry in log.read_text().splitlines()[1:]:
            name = Path(unquote(urlparse(json.loads(entry)["path"]).path)).name
            if name not in seen:
                seen.add(name)
                yield log.stat().st_ctime, rows / name


def moments_of_windows(published: Iterable[tuple[float, Path]]) -> dict[int, float]:
    """When the last result of each period's window came out."""
    moments: dict[int, float] = {}
    for moment, path in published:
        for window in _windows(path):
            moments[window] = max(moment, moments.get(window, 0.0))
    return moments


def _windows(path: Path) -> list[int]:
    starts = (
        pc.unique(pq.read_table(path, columns=["window_start"]).column(0)).cast(pa.timestamp("us")).cast(pa.int64())
    )
    return [start // PERIOD for start in starts.to_numpy().tolist()]


def delays(arrived: Sequence[float], published: dict[int, float], skipped: int) -> list[float]:
    """Of each window from the arrival of the file that completes it, without the first `skipped` ones."""
    return [published[n] - arrived[n + 1] for n in range(skipped, len(arrived) - 1) if n in published]
