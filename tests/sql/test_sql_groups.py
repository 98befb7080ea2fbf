"""What rows are grouped by: times themselves, sessions, numbers of rows, and windows over results of windows."""

from __future__ import annotations

import pytest
from sql_case import MINUTE, SECOND, pointed_at
from stream_case import A, B, columns, equi_join, planned, refused

from penstock.expr.tree import Call, Column, Literal, Named
from penstock.operators.bands import Band
from penstock.operators.window.kinds import EqualTimes, RowWindow, Session
from penstock.operators.window.windows import Window
from penstock.plan.logical import Aggregate, Aggregation, AssignWindows, Filter, Join, Project, Union

COUNT = (Aggregation("n", "count", None),)
HOUR = 60 * MINUTE


def test_groups_of_equal_times() -> None:
    node = planned("SELECT ts AS t, k, count(*) AS n FROM a GROUP BY k, t")
    assert node == Project(
        Aggregate(A, columns("k"), EqualTimes(("ts",)), COUNT),
        (Named("t", Column("ts")), *columns("k", "n")),
    )
    assert planned("SELECT ts AS t, k, count(*) AS n FROM a GROUP BY 2, 1") == node


def test_both_times_of_a_join() -> None:
    node = planned("SELECT a.ts, b.ts, count(*) AS n FROM a JOIN b USING (k, ts) GROUP BY a.ts, b.ts HAVING n > 1")
    grouped = Aggregate(equi_join(Band(0, 1, 0, 0)), (), EqualTimes(("ts", "b_ts")), COUNT)
    assert node == Project(
        Filter(grouped, Call(">", (Column("n"), Literal(1)))),
        (Named("ts", Column("ts")), Named("b_ts", Column("b_ts")), Named("n", Column("n"))),
    )


def test_keys_of_a_join_go_by_their_own_names() -> None:
    node = planned("SELECT b.k, count(*) AS n FROM a JOIN b USING (k, ts) GROUP BY b.k, a.k, b.ts").input
    assert node.keys == (Named("k", Column("b_k")), Named("a_k", Column("k")))
    assert node.window == EqualTimes(("b_ts",))


@pytest.mark.parametrize(
    "window",
    [
        "SESSION(a, ts, INTERVAL '5' MINUTE)",
        "TABLE(SESSION(TABLE a, DESCRIPTOR(ts), INTERVAL '5' MINUTE))",
        "TABLE(SESSION(TABLE a PARTITION BY k, DESCRIPTOR(ts), INTERVAL '5' MINUTE))",
        "SESSION(a PARTITION BY (k), ts, INTERVAL '5' MINUTE)",
        "SESSION(DATA => TABLE a PARTITION BY k, TIMECOL => DESCRIPTOR(ts), GAP => INTERVAL '5' MINUTE)",
    ],
)
def test_sessions(window: str) -> None:
    node = planned(
        f"SELECT k, window_start, window_end, count(*) AS n FROM {window} GROUP BY k, window_start, window_end"
    )
    session = Aggregate(A, columns("k"), Session("ts", 5 * MINUTE), COUNT)
    assert node == Project(session, columns("k", "window_start", "window_end", "n"))


@pytest.mark.parametrize(
    "query",
    [
        "SELECT count(*) AS n FROM a [ROWS 100 SLIDE 10] WHERE v > 1",
        "SELECT count(*) AS n [ROWS 100, SLIDE 10] FROM a WHERE v > 1",
        "SELECT count(*) AS n FROM (SELECT * FROM a WHERE v > 1) AS x [SLIDE 10, ROWS 100]",
    ],
)
def test_windows_of_rows(query: str) -> None:
    long = Filter(A, Call(">", (Column("v"), Literal(1))))
    assert planned(query) == Project(Aggregate(long, (), RowWindow(100, 10), COUNT), columns("n"))


def test_rows_without_a_slide_follow_each_other() -> None:
    assert planned("SELECT count(*) FROM a [ROWS 7]").input.window == RowWindow(7, 7)


def test_a_window_over_the_result_of_a_window() -> None:
    inner = "SELECT k, window_end AS done, sum(v) AS v FROM a [RANGE 1 MINUTE] GROUP BY k"
    node = planned(
        f"SELECT window_start, max(v) AS top FROM TUMBLE(({inner}), done, INTERVAL 1 HOUR) GROUP BY window_start"
    )
    assert node.input.window == Window("done", HOUR, HOUR)
    assert node.input.input.input.window == Window("ts", MINUTE, MINUTE)


def test_borders_hide_those_of_the_result_they_are_over() -> None:
    view = "CREATE VIEW v AS SELECT window_start, count(*) AS n FROM a [RANGE 1 MINUTE];"
    node = planned(view + "SELECT window_start, sum(n) AS n FROM v [RANGE 1 HOUR] HAVING window_start IS NOT NULL")
    assert node.input.input.window == Window("window_start", HOUR, HOUR)
    assert node.columns == columns("window_start", "n")
    rows = planned(view + "SELECT * FROM TUMBLE(v, window_start, INTERVAL 1 HOUR)")
    assert rows == AssignWindows(
        Project(
            planned(view + "SELECT * FROM v"), (Named("input_window_start", Column("window_start")), *columns("n"))
        ),
        Window("input_window_start", HOUR, HOUR),
    )


def test_windows_of_one_result_are_put_together_by_their_borders() -> None:
    inner = "(SELECT window_start, window_end, k, count(*) AS n FROM a [RANGE 1 MINUTE] GROUP BY k)"
    node = planned(f"SELECT window_end, max(n) AS n FROM {inner} GROUP BY window_start, window_end").input
    assert node.window == EqualTimes(("window_start", "window_end"))
    assert node.keys == ()


def test_a_window_behind_the_select_list_chooses_a_time_of_a_join() -> None:
    on = "FROM a JOIN b ON a.k = b.k AND a.ts = b.ts"
    node = planned(f"SELECT count(*) AS n [RANGE 1 MIN, SLIDE 10 SEC, WA b.ts] {on}").input
    assert node == Aggregate(equi_join(Band(0, 1, 0, 0)), (), Window("b_ts", MINUTE, 10 * SECOND), COUNT)
    assert planned(f"SELECT count(*) AS n [RANGE 1 MIN] {on}").input.window == Window("ts", MINUTE, MINUTE)
    assert planned("FROM a SELECT count(*) AS n [RANGE 1 MIN]").input.window == Window("ts", MINUTE, MINUTE)


@pytest.mark.parametrize(
    ("query", "what", "hint", "place"),
    [
        ("SELECT k, count(*) FROM a GROUP BY k", "a continuous aggregate needs a window", "group by `ts`", "count"),
        (
            "SELECT count(*) FROM (SELECT k FROM a) GROUP BY k",
            "a continuous aggregate needs a window",
            "TUMBLE",
            "count",
        ),
        (
            "SELECT a.k, count(*) FROM a LEFT JOIN b USING (k, ts) GROUP BY a.k, b.ts",
            "a continuous aggregate needs a win",
            "`ts`",
            "count",
        ),
        (
            "SELECT count(*) FROM SESSION(a, ts, INTERVAL 1 MINUTE) GROUP BY k",
            "the window is not in GROUP BY",
            "add",
            "k",
        ),
        ("SELECT * FROM SESSION(a, ts, INTERVAL 1 MINUTE)", "a session window needs an aggregate", "GROUP BY", ""),
        ("SELECT * FROM a [ROWS 5]", "a row window needs an aggregate", "GROUP BY", ""),
        (
            "SELECT count(*) FROM SESSION(a, ts) GROUP BY window_end",
            "SESSION has the wrong arguments",
            "SESSION(",
            "SESS",
        ),
        (
            "SELECT count(*) FROM SESSION(a, ts, INTERVAL 0 MINUTE) GROUP BY window_end",
            "a session needs a gap",
            "",
            "SESS",
        ),
        (
            "SELECT k, count(*) FROM SESSION(a PARTITION BY (k, s), ts, INTERVAL 1 MINUTE) GROUP BY k, window_end",
            "GROUP BY differs from the PARTITION BY",
            "GROUP BY k, s, window_start",
            "k",
        ),
        (
            "SELECT count(*) FROM SESSION(a PARTITION BY kk, ts, INTERVAL 1 MINUTE) GROUP BY window_end",
            "PARTITION BY takes columns of the stream",
            "did you mean `k`?",
            "SESS",
        ),
        (
            "SELECT count(*) FROM TUMBLE(a PARTITION BY k, ts, INTERVAL 1 MINUTE) GROUP BY window_end",
            "TUMBLE takes no PARTITION BY",
            "GROUP BY",
            "TUMBLE",
        ),
        (
            "SELECT count(*) [ROWS 5] FROM a JOIN b USING (k, ts)",
            "a window of rows is only possible over a source",
            "window of time",
            "a JOIN",
        ),
        ("SELECT count(*) FROM m UNION o [ROWS 5]", "a window of rows is only possible over a source", "", "m UNION"),
        (
            "SELECT sum(n) [ROWS 5] FROM (SELECT ts, count(*) AS n FROM a GROUP BY ts)",
            "a window of rows is only possible",
            "",
            "",
        ),
        ("SELECT count(*) [RANGE 1 MIN] FROM a [RANGE 1 MIN]", "the query has two windows", "write one", "[RANGE"),
        (
            "SELECT count(*) [RANGE 1 MIN WA w] FROM a JOIN b USING (k, ts)",
            "a window over `w` cannot be closed",
            "`ts`",
            "[",
        ),
        (
            "SELECT count(*) [RANGE 1 MIN WA ts] FROM a JOIN b USING (k)",
            "the join of `a` and `b` has no bound",
            "",
            "b US",
        ),
        ("SELECT count(*) [RANGE 1 MIN] FROM (SELECT k FROM a)", "the rows have no time column for a window", "", "["),
    ],
)
def test_errors(query: str, what: str, hint: str, place: str) -> None:
    raised = refused(query)
    assert raised.what.startswith(what)
    assert hint in raised.hint
    assert pointed_at(raised).startswith(place)


def test_a_window_of_a_union_of_joins() -> None:
    """Everything at once keeps its times."""
    side = "SELECT a.k, a.ts, b.w FROM a JOIN b ON a.k = b.k AND a.ts = b.ts"
    node = planned(f"SELECT k, count(*) AS n FROM ({side} UNION ALL {side}) [RANGE 1 MIN] GROUP BY k").input
    assert isinstance(node.input, Union)
    assert all(isinstance(part.input, Join) and part.input.inputs == (A, B) for part in node.input.inputs)
