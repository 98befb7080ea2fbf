"""The first rows of groups by ROW_NUMBER(), and DISTINCT."""

from __future__ import annotations

import pytest
from sql_case import MINUTE, pointed_at
from stream_case import A, columns, planned, refused

from penstock.expr.tree import Call, Column, Literal, Named
from penstock.operators.window.windows import Window
from penstock.plan.logical import Aggregate, Aggregation, AssignWindows, Distinct, Filter, Node, Order, Project, TopN

TUMBLE = Window("ts", MINUTE, MINUTE)
IN_WINDOWS = AssignWindows(A, TUMBLE)
FROM = "FROM TUMBLE(a, ts, INTERVAL 1 MINUTE)"
OVER = "ROW_NUMBER() OVER (PARTITION BY window_start, k ORDER BY v DESC, s)"
BY_V = (Order(Column("v"), descending=True), Order(Column("s")))
ALL = ("k", "v", "s", "ts", "window_start", "window_end")


def top(n: int, number: str | None = "rn") -> TopN:
    return TopN(IN_WINDOWS, (Column("k"),), "window_start", BY_V, n, number)


@pytest.mark.parametrize(
    ("where", "n"),
    [("rn <= 3", 3), ("rn < 3", 2), ("3 >= rn", 3), ("3 > rn", 2), ("rn = 1", 1), ("1 = rn", 1),
     ("rn BETWEEN 1 AND 4", 4), ("rn <= 3 AND rn < 9", 3), ("rn <= 3 AND TRUE", 3)],
)  # fmt: skip
def test_a_bound_around_a_numbered_query(where: str, n: int) -> None:
    expected = Project(top(n), columns(*ALL, "rn"))
    assert planned(f"SELECT * FROM (SELECT *, {OVER} AS rn {FROM}) WHERE {where}") == expected
    assert planned(f"WITH r AS (SELECT *, {OVER} AS rn {FROM}) SELECT * FROM r WHERE {where}") == expected
    assert planned(f"SELECT *, {OVER} AS rn {FROM} QUALIFY {where}") == expected


def test_other_conditions_stay() -> None:
    node = planned(f"SELECT k FROM (SELECT k, v, {OVER} AS rn {FROM}) x WHERE x.rn <= 3 AND x.rn > 1 AND v > 0")
    kept = Call("and", (Call(">", (Column("rn"), Literal(1))), Call(">", (Column("v"), Literal(0)))))
    assert node == Project(Filter(Project(top(3), columns("k", "v", "rn")), kept), columns("k"))
    assert planned(f"SELECT *, {OVER} AS rn {FROM} QUALIFY rn = 2").input == Filter(
        top(2), Call("=", (Column("rn"), Literal(2)))
    )


def test_qualify_without_a_number_in_the_result() -> None:
    assert planned(f"SELECT k, v {FROM} QUALIFY {OVER} <= 2") == Project(top(2, None), columns("k", "v"))


def test_the_number_goes_by_a_name_of_its_own() -> None:
    number = "ROW_NUMBER() OVER (PARTITION BY ts ORDER BY v)"
    node = planned(f"SELECT k, {number} AS k2, {number} AS v FROM a QUALIFY k2 <= 2")
    assert node.columns == (Named("k", Column("k")), Named("k2", Column("k2")), Named("v", Column("k2")))
    unnamed = planned(f"SELECT {number} FROM a QUALIFY {number} < 2")
    assert unnamed.columns == (Named("row_number", Column("row_number")),)


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        ("v", Order(Column("v"))),
        ("v DESC", Order(Column("v"), descending=True)),
        ("v NULLS FIRST", Order(Column("v"), nulls_first=True)),
        ("v DESC NULLS FIRST", Order(Column("v"), descending=True, nulls_first=True)),
        ("v ASC NULLS LAST", Order(Column("v"))),
        ("v + 1 DESC NULLS LAST", Order(Call("+", (Column("v"), Literal(1))), descending=True)),
    ],
)
def test_orders(order: str, expected: Order) -> None:
    assert planned(f"SELECT * FROM a QUALIFY ROW_NUMBER() OVER (PARTITION BY ts ORDER BY {order}) = 1").input.order == (
        expected,
    )


@pytest.mark.parametrize(
    ("partition", "keys", "time"),
    [
        ("PARTITION BY k", (Column("k"),), None),
        ("", (), None),
        ("PARTITION BY ts", (), "ts"),
        ("PARTITION BY lower(s), ts, k", (Call("lower", (Column("s"),)), Column("k")), "ts"),
    ],
)
def test_what_is_numbered_together(partition: str, keys: object, time: str | None) -> None:
    node = planned(f"SELECT * FROM a QUALIFY ROW_NUMBER() OVER ({partition} ORDER BY ts DESC) = 1")
    assert node == Project(TopN(A, keys, time, (Order(Column("ts"), descending=True),), 1, None), columns(*ALL[:4]))


def test_the_top_of_an_aggregate_in_one_query() -> None:
    node = planned(
        f"SELECT window_start, k, count(*) AS n {FROM} GROUP BY window_start, k "
        "QUALIFY ROW_NUMBER() OVER (PARTITION BY window_start ORDER BY sum(v) DESC) <= 3"
    )
    counted = Aggregate(
        A, columns("k"), TUMBLE, (Aggregation("n", "count", None), Aggregation("agg_1", "sum", Column("v")))
    )
    order = (Order(Column("agg_1"), descending=True),)
    assert node == Project(TopN(counted, (), "window_start", order, 3, None), columns("window_start", "k", "n"))


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT DISTINCT k, ts FROM a", Distinct(Project(A, columns("k", "ts")), "ts")),
        ("SELECT DISTINCT k, ts AS t FROM a", Distinct(Project(A, (*columns("k"), Named("t", Column("ts")))), "t")),
        (
            f"SELECT DISTINCT window_end, k {FROM}",
            Distinct(Project(IN_WINDOWS, columns("window_end", "k")), "window_end"),
        ),
        (
            "SELECT DISTINCT k FROM a [RANGE 1 MINUTE]",
            Project(Distinct(Project(IN_WINDOWS, columns("window_start", "k")), "window_start"), columns("k")),
        ),
        (
            "SELECT DISTINCT k, window_start FROM a [RANGE 1 MINUTE]",
            Distinct(Project(IN_WINDOWS, columns("k", "window_start")), "window_start"),
        ),
        ("SELECT DISTINCT * FROM a", Distinct(Project(A, columns(*ALL[:4])), "ts")),
    ],
)
def test_distinct(query: str, expected: Node) -> None:
    assert planned(query) == expected


def test_distinct_behind_the_select_list() -> None:
    assert planned("SELECT DISTINCT k [RANGE 1 MINUTE] FROM a") == planned("SELECT DISTINCT k FROM a [RANGE 1 MINUTE]")


def test_windows_without_an_aggregate() -> None:
    assert planned(f"SELECT * {FROM}") == IN_WINDOWS
    assert planned(f"SELECT x.k, window_end {FROM} x") == Project(IN_WINDOWS, columns("k", "window_end"))
    long = Call(">", (Column("v"), Literal(1)))
    assert planned(f"SELECT * {FROM} WHERE v > 1") == AssignWindows(Filter(A, long), TUMBLE)
    late = Call(">", (Column("window_end"), Column("ts")))
    assert planned(f"SELECT * {FROM} WHERE window_end > ts") == Filter(IN_WINDOWS, late)


def test_groups_without_an_aggregate_are_counted_unseen() -> None:
    counted = Aggregate(A, columns("k"), TUMBLE, (Aggregation("agg_1", "count", None),))
    assert planned("SELECT k FROM a [RANGE 1 MINUTE] GROUP BY k") == Project(counted, columns("k"))


@pytest.mark.parametrize(
    ("query", "what", "hint", "place"),
    [
        (f"SELECT *, {OVER} AS rn {FROM}", "ROW_NUMBER() needs a bound", "WHERE rn <= 3", ""),
        (f"SELECT * FROM (SELECT *, {OVER} AS rn {FROM}) WHERE v > 1", "ROW_NUMBER() needs a bound", "rn <= 3", ""),
        (f"SELECT * FROM (SELECT *, {OVER} AS rn {FROM}) WHERE rn > 1", "ROW_NUMBER() needs a bound", "rn <= 3", ""),
        (
            f"SELECT * FROM (SELECT *, {OVER} AS rn {FROM}) WHERE rn < 1",
            "the bound on ROW_NUMBER() excludes every row",
            "",
            "",
        ),
        (
            f"SELECT * FROM (SELECT *, {OVER} AS rn {FROM}) x JOIN a ON x.ts = a.ts",
            "ROW_NUMBER() needs a bound",
            "",
            "",
        ),
        (f"CREATE VIEW x AS SELECT *, {OVER} AS rn {FROM}", "ROW_NUMBER() needs a bound", "", ""),
        (
            "SELECT *, RANK() OVER (PARTITION BY ts ORDER BY v) AS r FROM a",
            "RANK is not supported",
            "ROW_NUMBER",
            "RANK",
        ),
        ("SELECT sum(v) OVER (PARTITION BY k) FROM a", "OVER is only supported with ROW_NUMBER()", "aggregate", "sum"),
        (
            "SELECT * FROM a QUALIFY ROW_NUMBER() OVER (PARTITION BY ts) = 1",
            "ROW_NUMBER() needs an ORDER BY",
            "",
            "ROW",
        ),
        (
            "SELECT * FROM a QUALIFY ROW_NUMBER() OVER (ORDER BY v ROWS 5 PRECEDING) = 1",
            "OVER takes PARTITION BY and",
            "",
            "ROW",
        ),
        ("SELECT * FROM a WHERE ROW_NUMBER() OVER (ORDER BY v) = 1", "OVER is not allowed here", "QUALIFY", "ROW"),
        ("SELECT * FROM a QUALIFY v > 1", "QUALIFY needs a ROW_NUMBER()", "WHERE", ""),
        ("SELECT * FROM a QUALIFY ROW_NUMBER() OVER (ORDER BY v) > 1", "QUALIFY needs a bound", "<= 3", ""),
        (
            "SELECT ROW_NUMBER() OVER (ORDER BY v), ROW_NUMBER() OVER (ORDER BY k) FROM a",
            "a query can have only one OVER",
            "enclosing query",
            "ROW_NUMBER() OVER (ORDER BY k)",
        ),
        (
            "SELECT DISTINCT ts, ROW_NUMBER() OVER (ORDER BY v) AS r FROM a QUALIFY r = 1",
            "DISTINCT and ROW_NUMBER()",
            "",
            "",
        ),
        ("SELECT DISTINCT k FROM a", "SELECT DISTINCT needs a time column in its result", "window_start", "k FROM"),
        (f"SELECT DISTINCT k {FROM}", "SELECT DISTINCT needs a time column in its result", "window_start", ""),
        ("SELECT DISTINCT ON (k) k, ts FROM a", "DISTINCT ON is not supported", "ROW_NUMBER()", "k)"),
        (
            "SELECT ts, ROW_NUMBER() OVER (ORDER BY ts) AS r, count(*) FROM a GROUP BY ts, r",
            "ROW_NUMBER() is not allowed",
            "around",
            "r",
        ),
    ],
)
def test_errors(query: str, what: str, hint: str, place: str) -> None:
    raised = refused(query)
    assert raised.what.startswith(what)
    assert hint in raised.hint
    assert pointed_at(raised).startswith(place)
