"""The process of `adapt-flush`: an aggregate by many groups over rows that arrive at a rate, closed in some way."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

import duckdb
import numpy as np

import penstock as ps
from penstock.events import EpochCommitted
from penstock.settings import Flush
from penstock_bench.adapt.paced import STRIDE, PacedConnector
from penstock_bench.check.digest import digest, parquet
from penstock_bench.experiments.part import serve

EPOCH = "100ms"


@dataclass(frozen=True)
class Question:
    """`seconds` of rows, `rate` a second, by `groups` groups in windows of `size` seconds, every `slide` seconds."""

    groups: int
    flush: Flush
    max_delay: int
    rate: int
    seconds: float
    size: int
    slide: int
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
    window = ps.sliding(f"{question.size}s", every=f"{question.slide}s")
    windows = (
        stream.group_by("k")
        .window(window)
        .agg(n=ps.count(), total=ps.sum("v"), least=ps.min("v"), most=ps.max("v"), mean=ps.avg("v"))
    )
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
    longest, most, median = (float(np.percentile(seconds, part)) for part in (100, 99, 50))
    return Trial(max(source.lags), longest, most, median, len(seconds), rows_out, same)


def equal(question: Question, published: Path) -> bool:
    exact = ("k", "epoch_us(window_start)", "n::BIGINT", "least", "most")
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        expected = digest(connection, f"({_answer(question)})", exact, ["total", "mean"])
        return expected.same(digest(connection, parquet(published), exact, ["total", "mean"]))


def _answer(question: Question) -> str:
    """By panes: a row is in one pane, a pane in size/slide windows."""
    rows, pane = round(question.rate * question.seconds), question.slide * 1_000_000
    panes = f"""SELECT range * {STRIDE} % {question.groups} AS k, range * 1000000 // {question.rate} // {pane} AS pane,
                       count(*) AS n, sum(range % 1000 / 8) AS total, min(range % 1000 / 8) AS least,
                       max(range % 1000 / 8) AS most FROM range({rows}) GROUP BY ALL"""
    starts = f"make_timestamp(({pane} * (pane - unnest(range({question.size // question.slide}))))::BIGINT)"
    return f"""SELECT k, window_start, sum(n) AS n, sum(total) AS total, min(least) AS least, max(most) AS most,
                      sum(total) / sum(n) AS mean
               FROM (SELECT *, {starts} AS window_start FROM ({panes})) GROUP BY k, window_start"""


if __name__ == "__main__":
    serve(Question, measure)
