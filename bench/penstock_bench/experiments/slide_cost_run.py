"""The process of `slide-cost`: the same aggregate with both slides, in turns, over the same files."""

from __future__ import annotations

import shutil
import time
from dataclasses import dataclass
from pathlib import Path

import duckdb

import penstock as ps
from penstock_bench.check.digest import digest, parquet
from penstock_bench.experiments.part import serve
from penstock_bench.workload import SLACK_SECONDS

CHECKED = 97  # where there are many keys, every 97th is compared row by row
MANY = 1_000


@dataclass(frozen=True)
class Case:
    """Windows of `size` seconds, every `slide` seconds, of `keys` keys."""

    size: int
    slide: int
    keys: int


@dataclass(frozen=True)
class Question:
    """`rows` is a folder of Parquet files with ts, k and v; `warm` a small one like it."""

    cases: tuple[Case, ...]
    repeat: int
    rows: str
    warm: str
    master: str
    scratch: str


@dataclass(frozen=True)
class Trial:
    case: Case
    seconds: float
    rows_in: int
    rows_out: int
    epochs: int
    equal: bool


def measure(question: Question) -> list[Trial]:
    for case in question.cases:
        _trial(case, question, Path(question.warm))
    return [_trial(case, question, Path(question.rows)) for _ in range(question.repeat) for case in question.cases]


def _trial(case: Case, question: Question, rows: Path) -> Trial:
    scratch = Path(question.scratch)
    stream = ps.read.files(str(rows / "*.parquet"), time="ts", progress=ps.slack(f"{SLACK_SECONDS}s"))
    window = ps.sliding(f"{case.size}s", every=f"{case.slide}s")
    windows = stream.group_by(k=ps.col("k") % case.keys).window(window).agg(n=ps.count(), s=ps.sum("v"))
    ready = windows.to.files(str(scratch / "rows"))
    try:
        began = time.perf_counter()
        run = ready.start(checkpoint=str(scratch / "checkpoint"), sites=2, master=question.master).wait()
        seconds = time.perf_counter() - began
        done = run.progress
        return Trial(case, seconds, done.rows_in, done.rows_out, done.epochs, equal(case, rows, scratch / "rows"))
    finally:
        shutil.rmtree(scratch / "rows", ignore_errors=True)
        shutil.rmtree(scratch / "checkpoint", ignore_errors=True)


def equal(case: Case, rows: Path, published: Path) -> bool:
    """Every row is in size/slide windows; and the windows of the keys that are compared are the batch answer's."""
    exact, found = ("k", "epoch_us(window_start)", "n::BIGINT"), parquet(published)
    with duckdb.connect() as connection:
        counted = connection.execute(
            f"SELECT (SELECT sum(n) FROM {found}) = (SELECT count(*) FROM {parquet(rows)}) * {case.size // case.slide}"
        ).fetchall()
        expected = digest(connection, f"({_answer(case, rows)})", exact, ["s"])
        same = expected.same(digest(connection, f"{found} WHERE {_compared(case)}", exact, ["s"]))
    return same and counted == [(True,)]


def _compared(case: Case) -> str:
    return f"k % {CHECKED} = 0" if case.keys > MANY else "true"


def _answer(case: Case, rows: Path) -> str:
    """By panes: a row is in one pane, a pane in size/slide windows."""
    panes = f"""SELECT k % {case.keys} AS k, time_bucket(INTERVAL {case.slide} SECONDS, ts) AS pane, count(*) AS n,
                       sum(v) AS s FROM {parquet(rows)} GROUP BY ALL"""
    starts = f"pane - to_seconds({case.slide} * unnest(range({case.size // case.slide})))"
    return f"""SELECT k, window_start, sum(n) AS n, sum(s) AS s
               FROM (SELECT k, n, s, {starts} AS window_start FROM ({panes}) WHERE {_compared(case)})
               GROUP BY k, window_start"""


if __name__ == "__main__":
    serve(Question, measure)
