"""Random rows that come late, to all operators with windows, by both rules of lateness, against the batch answer."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import penstock as ps
from penstock.api.streams import Stream, Windowed
from penstock.testing.oracle.relation import MARK
from penstock.testing.source_rows import sources_of
from penstock.testing.ways import random_ways
from tests.support.amounts import random_cases
from tests.support.cases.late import judged
from tests.support.fuzz import report_of
from tests.support.queries.data import MICROSECOND, SECOND, random_grain, random_origin
from tests.support.trials.trial import Trial, epochs_of, random_late_source

ROUNDS = len(random_cases(6))  # of all queries and both rules

Query = Callable[[Stream, Stream], Stream]
MEASURES = {"n": ps.count(), "total": ps.sum("i"), "least": ps.min("f"), "last": ps.last("s")}
STEP, UNIT = 4 * SECOND, SECOND * MICROSECOND
SLIDING, TUMBLING = ps.sliding(10 * UNIT, every=4 * UNIT), ps.tumbling(10 * UNIT)
SMALL = ps.sliding(7 * UNIT, every=3 * UNIT, offset=UNIT)


def as_they_are(rows: pa.Table) -> pa.Table:
    return rows


def ends(windows: Windowed) -> Stream:
    """What of an aggregate goes by the same time whatever its windows are."""
    return windows.agg(n=ps.count()).select("window_end", "n")


QUERIES: dict[str, Query] = {
    "tumbling": lambda a, b: a.group_by("k").window(TUMBLING).agg(**MEASURES),
    "sliding": lambda a, b: a.group_by("k").window(SLIDING).agg(**MEASURES),
    "sliding by a pane": lambda a, b: a.window(ps.sliding(30 * UNIT, every=UNIT)).agg(n=ps.count()),
    "sliding over a union": lambda a, b: a.union(b).group_by("k").window(SMALL).agg(**MEASURES),
    "windows with gaps": lambda a, b: a.window(ps.sliding(4 * UNIT, every=10 * UNIT, gaps=True)).agg(n=ps.count()),
    "sessions": lambda a, b: a.group_by("k").window(ps.session(3 * UNIT)).agg(**MEASURES),
    "long sessions": lambda a, b: a.group_by("i").window(ps.session(9 * UNIT)).agg(n=ps.count()),
    "sessions over a union": lambda a, b: a.union(b).group_by("k").window(ps.session(4 * UNIT)).agg(**MEASURES),
    "windows of rows": lambda a, b: a.window(ps.rows(10, every=3)).agg(n=ps.count(), most=ps.max("k")),
    "moments": lambda a, b: a.group_by("k").at("ts").agg(n=ps.count()),
    "moments of windows": lambda a, b: a.windowed(SLIDING).group_by("k").at("window_start").agg(n=ps.count()),
    "distinct": lambda a, b: a.select("ts", "k").distinct(),
    "distinct in windows": lambda a, b: a.windowed(SLIDING).select("window_start", "k").distinct(),
    "distinct by the end of windows": lambda a, b: a.windowed(SMALL).select("window_end", "i").distinct(),
    "top in windows": lambda a, b: a.windowed(SLIDING).top(2, ps.desc("i"), keys=["k"], number="place"),
    "keep first in windows": lambda a, b: a.windowed(TUMBLING).keep_first("k"),
    "top of all": lambda a, b: a.top(3, [ps.asc("i"), "ts"], keys=["k"], per=None),
    "windows of windows": lambda a, b: (
        a.windowed(SLIDING).window(ps.sliding(12 * UNIT, every=8 * UNIT, time="window_start")).agg(n=ps.count())
    ),
    "join in windows": lambda a, b: a.windowed(TUMBLING).join(b.windowed(TUMBLING), "k", within="window", kind="left"),
    "an aggregate of an aggregate": lambda a, b: (
        a.group_by("k").window(SMALL).agg(n=ps.count()).window(ps.tumbling(9 * UNIT)).agg(most=ps.max("n"))
    ),
    "a filter before windows": lambda a, b: a.where(ps.col("i") > 0).group_by("k").window(SLIDING).agg(n=ps.count()),
    "a function before windows": lambda a, b: (
        a.map_batches(as_they_are, a.schema, time="ts").window(SLIDING).agg(n=ps.count())
    ),
    "two windows over one source": lambda a, b: ends(a.window(SLIDING)).union(ends(a.window(ps.session(2 * UNIT)))),
    "late for one, in time for the other": lambda a, b: (
        ends(a.where(ps.col("i") > 0).window(SMALL)).union(ends(a.window(ps.sliding(60 * UNIT, every=20 * UNIT))))
    ),
    "a join and an aggregate of one source": lambda a, b: (
        a.window(TUMBLING).agg(n=ps.count()).select(ts=ps.col("window_end"), n=ps.col("n"))
        .union(a.join(b, "k", within=2 * UNIT).select("ts", n=ps.col("right_k")))
    ),
    "windows of a join": lambda a, b: a.join(b, "k", within=(0, 3 * UNIT)).window(SLIDING).agg(n=ps.count()),
}  # fmt: skip


def drawn(name: str, lateness: str, case: int) -> Trial:
    random = Random(f"{name} {lateness} {case}")
    origin, grain = random_origin(random), random_grain(random)
    a, b = (random_late_source(random, source, origin, grain, 24) for source in "ab")
    order = random.choice(["any", "any", "in"])
    return Trial(QUERIES[name](a, b).node, random_ways(random), order, "1x1", lateness)


@pytest.mark.parametrize("lateness", ["window", "row"])
@pytest.mark.parametrize("name", QUERIES)
def test_late_rows_count_in_open_windows_and_say_which_windows_missed_them(name: str, lateness: str) -> None:
    for case in range(ROUNDS):
        if found := report_of(drawn(name, lateness, case), f"{name}, case {case}", 60):
            pytest.fail(found)


def test_these_rows_come_late_in_every_way() -> None:
    """Behind the punctuation; late for some of their windows, and for all; on the very border of a closed window."""
    behind = late = wholly = border = 0
    for case in range(32):
        trial = drawn("sliding", "window", case)
        source = sources_of(trial.node)["a"]
        rows = judged(epochs_of(trial.node)["a"], source).filter(pc.field(MARK).is_valid())
        marks = rows.column(MARK).to_pylist()
        for time, mark in zip(rows.column("ts").cast(pa.int64()).to_pylist(), marks, strict=True):
            first, last = ((time - size) // STEP * STEP + STEP for size in (10 * SECOND, STEP))
            behind += time < mark
            late += first + 10 * SECOND <= mark
            wholly += last + 10 * SECOND <= mark
            border += first <= mark - 10 * SECOND <= last and (mark - 10 * SECOND) % STEP == 0
    assert behind > late > wholly > 20
    assert border > 10
