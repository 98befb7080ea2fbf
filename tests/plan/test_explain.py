"""What explain says of operators: how rows get there, what is kept and how long, in which order rows are cut."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest

import penstock as ps
from penstock.api.streams import Stream


def source(name: str, value: str) -> Stream:
    table = pa.table({"ts": pa.array([1], pa.timestamp("us")), "k": [1], value: [1.5]})
    return ps.read.table(table, time="ts", name=name)


A, B = source("a", "v"), source("b", "w")
LESS = ps.col("v") < ps.col("w")


def test_a_theta_join_is_exchanged_by_grid() -> None:
    said = A.theta_join(B, LESS, within="5s").explain()
    assert "exchange by grid to subquery 0, input 0: each row to a row of cells" in said
    assert "exchange by grid to subquery 0, input 1: each row to a column of cells" in said
    assert "subquery 0: theta join over a grid with a cell for each site" in said
    assert "key hash" not in said


@pytest.mark.parametrize(
    ("query", "kept"),
    [
        (
            lambda: A.theta_join(B, LESS, within=("1s", "5s")),
            ["rows of input 0 for 5s", "rows of input 1 for 1s"],
        ),
        (lambda: A.theta_join(B, LESS, last_rows=(3, 4)), ["keep the last 3 and 4 rows"]),
        (lambda: A.join(B, on="k", within="5s", kind="left"), ["input 0 for 5s", "input 1 for 10s"]),
        (lambda: A.join(B, on="k", within="0s"), ["input 0 until their time has passed", "input 1 until their time"]),
        (lambda: A.join(B, on="k", within=None), ["keep rows of input 0 until the other input has ended"]),
        (lambda: A.group_by("k").window(ps.sliding("1m", every="10s")).agg(n=ps.count()), ["key and pane, at most 1m"]),
        (lambda: A.group_by("k").window(ps.session("5m")).agg(n=ps.count()), ["until 5m after their last row"]),
        (lambda: A.group_by("k").at("ts").agg(n=ps.count()), ["for each group until its time has passed"]),
        (lambda: A.distinct(), ["each different row until its time has passed"]),
        (lambda: A.top(2, "v", keys=["k"], per=None), ["at most 2 rows of each group until the stream has ended"]),
        (lambda: A.in_order(), ["keep rows until their time has passed"]),
    ],
)
def test_it_says_how_long_rows_are_kept(query: Callable[[], Stream], kept: list[str]) -> None:
    said = query().explain()
    assert all(text in said for text in kept), said


def test_it_says_the_order_of_a_top_n_and_no_column_twice() -> None:
    windows = A.windowed(ps.tumbling("10s"))
    said = windows.top(3, [ps.desc("v"), ps.col("k") % 2], keys=["k"], per="window_start").explain()
    assert "subquery 0: first 3 rows by k and window_start\n  ordered by v desc, k % 2\n" in said
    assert "keep at most 3 rows of each group until window_start has passed" in said
    assert "compute ts, k, v, window_start, window_end, k % 2\n" in said


def test_keys_of_a_join_are_shown_as_they_are_written() -> None:
    said = A.join(B, on=[(ps.col("k") % 2, ps.col("k") % 3)], within="5s").explain()
    assert "inner join of 2 inputs on (k % 2) = (k % 3)" in said


def test_an_aggregate_reads_no_column_twice() -> None:
    said = A.group_by("k").window(ps.tumbling("10s")).agg(n=ps.max("k"), s=ps.sum("v")).explain()
    assert "compute time = ts, k, v\n" in said


@pytest.mark.parametrize(
    ("query", "way"),
    [
        (lambda: A.in_order(), "to one site of subquery 0: the order is over all rows (in_order(by=…), or in_order_by"),
        (lambda: A.in_order(by="k"), "by key hash to subquery 0"),
        (lambda: A.window(ps.tumbling("1s")).agg(n=ps.count()), "to one site of subquery 0: all rows are one group"),
        (lambda: A.window(ps.session("1s")).agg(n=ps.count()), "to one site of subquery 0: all rows are one group"),
        (lambda: A.group_by("k").window(ps.session("1s")).agg(n=ps.count()), "by key hash to subquery 0"),
        (lambda: A.top(2, "v", per=None), "to one site of subquery 0: all rows are one group"),
        (lambda: A.windowed(ps.tumbling("1s")).top(2, "v", per="window_start"), "by key hash to subquery 0"),
        (lambda: A.theta_join(B, LESS, last_rows=3), "to all cells of subquery 0, input 1: each row looks back in one"),
    ],
)
def test_it_says_how_rows_travel_and_why_all_meet_at_one_site(query: Callable[[], Stream], way: str) -> None:
    assert f"exchange {way}" in query().explain()


@pytest.mark.parametrize(
    "query", [lambda: A.theta_join(B, LESS, within="5s"), lambda: A.theta_join(B, LESS, last_rows=3)]
)
def test_a_grid_of_one_cell_is_one_site(query: Callable[[], Stream]) -> None:
    assert "subquery 0, input 1: the grid has one cell" in query().to.memory().explain(grid="1x1")
    assert "a grid of 2 x 3 cells" in query().to.memory().explain(grid="2x3")


def test_nulls_that_come_first_are_shown() -> None:
    order = [ps.desc("v", nulls_first=True), ps.asc("k")]
    assert "ordered by v desc nulls first, k\n" in A.top(3, order, keys=["k"], per=None).explain()


def test_what_is_done_before_rows_travel_is_shown_where_it_is_done() -> None:
    assert "pre-aggregate by key and pane" in A.group_by("k").window(ps.tumbling("10s")).agg(n=ps.count()).explain()
    assert "pre-aggregate" not in A.group_by("k").window(ps.rows(10)).agg(n=ps.count()).explain()
