"""Windows in FROM: three ways to write them, one plan."""

from __future__ import annotations

import pytest
from sql_case import CALLS, HOP, MINUTE, SECOND, TUMBLE, aggregate, error, plan, pointed_at

from penstock.expr.tree import Call, Column, Literal, Named
from penstock.operators.window.windows import Window
from penstock.plan.logical import Aggregate, Aggregation, Filter, Project

SELECT = "SELECT district, count(*) AS n FROM"
HOPPING = f"{SELECT} HOP(calls, ts, INTERVAL '10' SECOND, INTERVAL '1' MINUTE) GROUP BY district, window_start"


def test_hop() -> None:
    assert plan(HOPPING) == Project(
        Aggregate(CALLS, (Named("district", Column("district")),), HOP, (Aggregation("n", "count", None),)),
        (Named("district", Column("district")), Named("n", Column("n"))),
    )


@pytest.mark.parametrize(
    "query",
    [
        f"{SELECT} TABLE(HOP(TABLE calls, DESCRIPTOR(ts), INTERVAL '10' SECOND, INTERVAL '1' MINUTE)) "
        "GROUP BY district, window_start, window_end",
        f"{SELECT} TABLE(HOP(DATA => TABLE calls, TIMECOL => DESCRIPTOR(ts), SIZE => INTERVAL '1' MINUTE, "
        "SLIDE => INTERVAL '10' SECOND)) GROUP BY district, window_end",
        f"{SELECT} calls [RANGE 1 MINUTE SLIDE 10 SECONDS WA ts] GROUP BY district",
        f"{SELECT} calls [WA ts, slide 10 second, range 1 min] GROUP BY district",
        f"{SELECT} calls[RANGE 1 MINUTE SLIDE 10000 MILLISECONDS] GROUP BY district, window_start",
        f"{SELECT} calls [RANGE '60' SECONDS SLIDE INTERVAL '10' SECOND] AS c GROUP BY c.district",
        f"{SELECT} HOP((SELECT * FROM calls), TS, INTERVAL '10 seconds', INTERVAL '0.5 min 30 s') "
        "GROUP BY 1, window_end",
    ],
)
def test_all_forms_give_the_same_plan(query: str) -> None:
    assert plan(query) == plan(HOPPING)


def test_tumble_in_all_forms() -> None:
    tumbling = f"{SELECT} TUMBLE(calls, ts, INTERVAL '1' MINUTE) GROUP BY district, window_start"
    assert aggregate(tumbling).window == TUMBLE
    assert plan(f"{SELECT} calls [RANGE 1 MINUTE] GROUP BY district") == plan(tumbling)
    flink = f"{SELECT} TABLE(TUMBLE(TABLE calls, DESCRIPTOR(ts), INTERVAL '1' MINUTE)) GROUP BY district, window_start"
    assert plan(flink) == plan(tumbling)


def test_offsets() -> None:
    tumble = "SELECT count(*) FROM TUMBLE(calls, ts, INTERVAL '1' MINUTE, INTERVAL '70' SECOND) GROUP BY window_start"
    assert aggregate(tumble).window == Window("ts", MINUTE, MINUTE, 10 * SECOND)
    window = "HOP(calls, ts, INTERVAL 10 SECOND, INTERVAL 1 MINUTE, INTERVAL 3 SECOND)"
    hop = f"SELECT count(*) FROM {window} GROUP BY window_end"
    assert aggregate(hop).window == Window("ts", MINUTE, 10 * SECOND, 3 * SECOND)


def test_numbers_measure_a_bigint_time() -> None:
    assert aggregate("SELECT count(*) FROM HOP(ticks, n, 5, 20) GROUP BY window_start").window == Window("n", 20, 5)
    assert aggregate("SELECT count(*) FROM ticks [SLIDE 5 RANGE 20]").window == Window("n", 20, 5)


def test_where_goes_below_the_aggregate() -> None:
    node = aggregate("SELECT count(*) FROM calls [RANGE 1 MINUTE] WHERE duration > 1")
    assert node.input == Filter(CALLS, Call(">", (Column("duration"), Literal(1))))


def test_time_is_followed_through_a_subquery_under_its_new_name() -> None:
    inner = "SELECT district, ts AS at FROM calls WHERE duration > 1"
    by_name = aggregate(f"SELECT count(*) FROM TUMBLE(({inner}), at, INTERVAL '1' MINUTE) GROUP BY window_start")
    assert by_name.window.time == "at"
    assert by_name == aggregate(f"SELECT count(*) FROM ({inner}) [RANGE 1 MINUTE]")
    assert by_name == aggregate(f"CREATE VIEW v AS {inner}; SELECT count(*) FROM v [RANGE 1 MINUTE WA at]")


def test_brackets_elsewhere_are_left_alone() -> None:
    query = "SELECT '[RANGE 1 MINUTE]' AS a /* FROM calls [RANGE */ FROM calls -- [SLIDE 1 DAY]"
    assert plan(query) == Project(CALLS, (Named("a", Literal("[RANGE 1 MINUTE]")),))
    element = Call("array_extract", (Column("tag"), Literal(1)))
    assert plan("SELECT tag[1] AS e FROM calls") == Project(CALLS, (Named("e", element),))
    assert "bracket" in error("SELECT caller, tag[range] FROM calls").what


@pytest.mark.parametrize(
    ("window", "what", "hint", "place"),
    [
        ("TUMBLE(calls, caller, INTERVAL '1' MINUTE)", "a window over `caller` cannot be closed", "use `ts`", "TUMBLE"),
        ("TUMBLE(calls, tss, INTERVAL '1' MINUTE)", "unknown column `tss`", "did you mean `ts`?", "TUMBLE"),
        ("TUMBLE(cals, ts, INTERVAL '1' MINUTE)", "unknown source or view `cals`", "did you mean `calls`?", "cals"),
        ("TUMBLE(calls, ts, INTERVAL '1' MONTH)", "an interval in units of MONTH cannot be used", "use days", "'1'"),
        ("TUMBLE(calls, ts, INTERVAL '2 years')", "an interval in units of YEAR cannot be used", "use days", "TUMBLE"),
        ("TUMBLE(calls, ts, INTERVAL 'a while')", "the interval `a while` cannot be read", "a number and a unit", "'a"),
        ("TUMBLE(calls, ts, INTERVAL '0.0000001' SECOND)", "the interval `0.0000001 SECOND` is finer", "micro", "'0"),
        ("TUMBLE(calls, ts, INTERVAL '300000' YEAR)", "an interval in units of YEAR", "use days", "'3"),
        ("TUMBLE(calls, ts, INTERVAL '99999999' DAY)", "the window is too long", "", "TUMBLE"),
        (
            "HOP(calls, ts, INTERVAL '1' SECOND, INTERVAL '0' SECOND)",
            "a window needs a size and a slide",
            "HOP(",
            "HOP",
        ),
        ("HOP(calls, ts, INTERVAL '-1' SECOND, INTERVAL '1' SECOND)", "a window needs a size and a slide", "", "HOP"),
        ("HOP(calls, ts, INTERVAL '1' SECOND)", "HOP has the wrong arguments", "the slide before the size", "HOP"),
        ("TUMBLE(calls, ts, 60)", "a window over a TIMESTAMP takes an INTERVAL", "INTERVAL", "TUMBLE"),
        ("TUMBLE(ticks, n, INTERVAL '1' MINUTE)", "a window over a BIGINT takes a whole number", "60", "TUM"),
        ("TUMBEL(calls, ts, INTERVAL '1' MINUTE)", "unknown window `TUMBEL`", "did you mean `TUMBLE`?", "TUMBEL"),
        (
            "TUMBLE((SELECT caller FROM calls), ts, INTERVAL '1' MINUTE)",
            "the input of the window has no time column",
            "also select `ts`",
            "TUMBLE",
        ),
        ("calls [ROWS 0]", "a window of rows needs a size and a slide above zero", "[ROWS 100 SLIDE 10]", "calls"),
        ("calls [ROWS 1 MINUTE]", "a window of rows takes a whole number", "[ROWS 100 SLIDE 10]", "calls"),
        ("calls [ROWS 10 WA ts]", "a window of rows has no time", "[ROWS 100 SLIDE 10]", ""),
        ("calls [ROWS 10 RANGE 1 MINUTE]", "the window has both RANGE and ROWS", "[ROWS 100 SLIDE 10]", ""),
        ("calls [SLIDE 1 MINUTE]", "the window has no RANGE", "RANGE 1 MINUTE", ""),
        ("calls [RANGE 1 LIGHTYEAR]", "`LIGHTYEAR` is not expected in a window", "RANGE 1 MINUTE", "LIGHT"),
        ("calls [RANGE 1 MONTH]", "an interval in units of MONTH cannot be used", "use days", "1 MONTH"),
        ("calls [RANGE minute]", "a window needs a number here", "RANGE 1 MINUTE", "minute"),
        ("calls [RANGE 1 MINUTE", "syntax error: the statement ends too early", "", ""),
    ],
)
def test_window_errors(window: str, what: str, hint: str, place: str) -> None:
    suffix = "" if "[" in window else " GROUP BY window_start"
    raised = error(f"SELECT count(*) FROM {window}{suffix}")
    assert raised.what.startswith(what)
    assert hint in raised.hint
    assert pointed_at(raised).startswith(place)


def test_why_months_are_refused() -> None:
    assert "no fixed length" in error("SELECT count(*) FROM calls [RANGE 1 MONTH]").detail


@pytest.mark.parametrize(
    ("query", "what", "hint"),
    [
        ("SELECT count(*) FROM calls", "a continuous aggregate needs a window: ", "TUMBLE(calls, ts"),
        ("SELECT caller FROM calls GROUP BY caller", "a continuous aggregate needs a window: ", "TUMBLE(calls, ts"),
        ("SELECT count(*) FROM TUMBLE(calls, ts, INTERVAL 1 MINUTE)", "the window is not in GROUP BY", "window_start"),
        (
            "SELECT count(*) FROM TUMBLE(calls, ts, INTERVAL 1 MINUTE) GROUP BY caller",
            "the window is not in GROUP BY",
            "",
        ),
        (
            "SELECT count(*) FROM calls [RANGE 1 MINUTE] WHERE window_start > ts",
            "unknown column `window_start`",
            "HAVING",
        ),
        ("SELECT sum(window_start) FROM calls [RANGE 1 MINUTE]", "unknown column `window_start`", ""),
    ],
)
def test_a_window_and_aggregates_go_together(query: str, what: str, hint: str) -> None:
    raised = error(query)
    assert raised.what.startswith(what)
    assert hint in raised.hint
    assert "line 4, column" in raised.detail
