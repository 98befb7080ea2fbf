"""The process of `adapt-flush`: an aggregate by many groups over rows that arrive at a rate, closed in some way."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

import duckdb
import numpy as np

import penstock as ps
from penstock.bench.adapt.paced import STRIDE, PacedConnector
from penstock.bench.also.part import serve
from penstock.bench.also.same_rows import digest, parquet
from penstock.events import EpochCommitted

EPOCH = "100ms"


@dataclass(frozen=True)
class Question:
    """`seconds` of rows, `rate` a second, in tumbling windows of `window` seconds by `groups` groups."""

    groups: int
    flush: str
    max_delay: int
    rate: int
    seconds: float
    window: int
    master: str
    sites: int
    scratch: str


@dataclass(frozen=True)
class Trial:
    """In seconds: how long a row waited at most to be taken in, and how long epochs took. The epochs that start the
    query and that end it do not count."""

    lag: float
    longest: float
    percentile_99: float
    median: float
    epochs: int
    rows_out: int
    equal: bool


def measure(question: Question) -> Trial:
    scratch, took = Path(question.scratch), list[EpochCommitted]()
    source = PacedConnector(round(question.rate * question.seconds), question.rate, question.groups)
    stream = ps.read.source(source, time="ts", progress=ps.ordered(), name="paced")
    windows = stream.group_by("k").window(ps.tumbling(f"{question.window}s")).agg(n=ps.count(), s=ps.sum("v"))
    try:
        run = windows.to.files(str(scratch / "rows")).start(
            str(scratch / "checkpoint"),
            sites=question.sites,
            master=question.master,
            epoch=EPOCH,
            flush=question.flush,
            max_delay=question.max_delay,
            on_event=lambda event: took.append(event) if isinstance(event, EpochCommitted) else None,
        )
        run.wait()
        return _trial(source, took, run.progress.rows_out, equal(question, scratch / "rows"))
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _trial(source: PacedConnector, took: list[EpochCommitted], rows_out: int, same: bool) -> Trial:
    seconds = [event.seconds for event in took[1:] if event.low_water_mark is not None]
    parts = [float(np.percentile(seconds, part)) for part in (100, 99, 50)]
    return Trial(max(source.lags), *parts, len(seconds), rows_out, same)


def equal(question: Question, published: Path) -> bool:
    exact, close = ("k", "epoch_us(window_start)", "n::BIGINT"), ["s"]
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        expected = digest(connection, f"({_answer(question)})", exact, close)
        return expected.same(digest(connection, parquet(published), exact, close))


def _answer(question: Question) -> str:
    rows, width = round(question.rate * question.seconds), question.window * 1_000_000
    return f"""SELECT range * {STRIDE} % {question.groups} AS k,
                      make_timestamp(range * 1000000 // {question.rate} // {width} * {width}) AS window_start,
                      count(*) AS n, sum(range % 1000 / 8) AS s
               FROM range({rows}) GROUP BY ALL"""


if __name__ == "__main__":
    serve(Question, measure)
