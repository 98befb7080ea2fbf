"""UNION of queries and of names, and WITH."""

from __future__ import annotations

import pytest
from sql_case import MINUTE, pointed_at
from stream_case import A, B, M, O, columns, planned, refused

from penstock.expr.tree import Cast, Column, Named
from penstock.operators.window.windows import Window
from penstock.plan.logical import Aggregate, Distinct, Filter, Project, Union

K_TS = columns("k", "ts")


def test_union_all_of_queries() -> None:
    node = planned("SELECT k, ts FROM a UNION ALL SELECT k, ts FROM b UNION ALL (SELECT k, ts FROM a)")
    assert node == Union((Project(A, K_TS), Project(B, K_TS), Project(A, K_TS)))


def test_columns_are_by_position_and_brought_to_one_type() -> None:
    node = planned("SELECT k, v AS x, ts FROM a UNION ALL SELECT w, j, ts FROM b")
    assert isinstance(node, Union)
    assert node.inputs[0].columns == (Named("k", Cast(Column("k"), "DOUBLE")), *columns("x", "ts"))
    assert node.inputs[1].columns == (*columns("w"), Named("j", Cast(Column("j"), "DOUBLE")), *columns("ts"))


def test_union_gives_equal_rows_once() -> None:
    both = Union((Project(A, K_TS), Project(B, K_TS)))
    assert planned("SELECT k, ts FROM a UNION SELECT k, ts FROM b") == Distinct(both, "ts")
    mixed = planned("SELECT k, ts FROM a UNION SELECT k, ts FROM b UNION ALL SELECT k, ts FROM a")
    assert mixed == Union((Distinct(both, "ts"), Project(A, K_TS)))


@pytest.mark.parametrize(
    "union", ["m UNION o", "m union all o", "(m UNION o)", "(SELECT * FROM m UNION ALL SELECT * FROM o)"]
)
def test_a_union_stands_where_a_stream_may(union: str) -> None:
    assert planned(f"SELECT * FROM {union}") == Union((M, O))
    counted = Aggregate(Union((M, O)), columns("k"), Window("n", 10, 10), ())
    node = planned(f"SELECT k, count(*) FROM {union} [RANGE 10] GROUP BY k").input
    assert (node.input, node.keys, node.window) == (counted.input, counted.keys, counted.window)
    assert planned(f"SELECT k, count(*) FROM {union} AS x [RANGE 10] GROUP BY k").input == node
    joined = planned(f"SELECT x.k FROM {union} AS x, m WHERE x.n = m.n").input
    assert joined.inputs == (Union((M, O)), M)


def test_a_union_of_names_in_a_window_function_and_behind_other_streams() -> None:
    node = planned("SELECT p.k FROM m AS p, o UNION m UNION ALL o AS q WHERE p.n = q.n").input
    assert node.inputs == (M, Union((O, M, O)))


def test_queries_by_name() -> None:
    inner = "x AS (SELECT k, ts FROM a WHERE v > 1), y AS (SELECT * FROM x UNION ALL SELECT k, ts FROM b)"
    node = planned(
        f"WITH {inner} SELECT k, count(*) AS n FROM TUMBLE(y, ts, INTERVAL 1 MINUTE) GROUP BY k, window_start"
    )
    assert isinstance(node.input, Aggregate)
    assert node.input.window == Window("ts", MINUTE, MINUTE)
    assert isinstance(node.input.input, Union)
    first, second = node.input.input.inputs
    assert isinstance(first.input, Filter)
    assert second == Project(B, K_TS)


def test_a_name_hides_a_source_behind_it_only() -> None:
    assert planned("WITH A AS (SELECT k, ts FROM a) SELECT * FROM a") == Project(A, K_TS)
    assert planned("SELECT * FROM (WITH a AS (SELECT * FROM b) SELECT k, ts FROM a) x") == Project(B, K_TS)
    both = planned("WITH x AS (SELECT k, ts FROM a) SELECT * FROM x UNION ALL SELECT * FROM x")
    assert both == Union((Project(A, K_TS), Project(A, K_TS)))


def test_a_view_can_be_read_twice() -> None:
    node = planned("CREATE VIEW v AS SELECT k, ts FROM a; SELECT * FROM v x JOIN v y ON x.k = y.k AND x.ts = y.ts")
    assert node.inputs == (Project(A, K_TS), Project(A, K_TS))


@pytest.mark.parametrize(
    ("query", "what", "hint", "place"),
    [
        ("SELECT k FROM a UNION SELECT k FROM b", "UNION needs a time column in its result", "UNION ALL", "k FROM b"),
        (
            "SELECT s, ts FROM a UNION ALL SELECT k, ts FROM b",
            "columns 1 of a UNION have types that cannot be compared",
            "cast",
            "k, ts FROM b",
        ),
        (
            "SELECT k, ts FROM a UNION ALL SELECT k FROM b",
            "the parts of a UNION have different numbers",
            "",
            "k FROM b",
        ),
        ("SELECT * FROM a UNION m", "the parts of a UNION have different numbers", "", "a UNION"),
        ("SELECT k FROM a EXCEPT SELECT k FROM b", "EXCEPT is not supported", "ANTI JOIN", "k FROM b"),
        ("SELECT k FROM a INTERSECT SELECT k FROM b", "INTERSECT is not supported", "SEMI JOIN", "k FROM b"),
        (
            "SELECT k FROM a UNION ALL BY NAME SELECT k FROM b",
            "UNION takes columns by position",
            "same order",
            "k FROM",
        ),
        ("SELECT k FROM a UNION ALL SELECT k FROM b ORDER BY k", "ORDER BY is not supported", "sort where", "k"),
        ("SELECT k FROM a UNION ALL SELECT k FROM b LIMIT 3", "LIMIT is not supported", "WHERE", "3"),
        ("WITH RECURSIVE x AS (SELECT * FROM a) SELECT * FROM x", "WITH RECURSIVE is not supported", "leave", "x AS"),
        ("WITH x(p) AS (SELECT k FROM a) SELECT * FROM x", "WITH cannot name columns", "in the SELECT", "x(p"),
        (
            "WITH x AS (SELECT * FROM y), y AS (SELECT * FROM a) SELECT * FROM x",
            "unknown source or view `y`",
            "",
            "y), y",
        ),
    ],
)
def test_errors(query: str, what: str, hint: str, place: str) -> None:
    raised = refused(query)
    assert raised.what.startswith(what)
    assert hint in raised.hint
    assert pointed_at(raised).startswith(place)


def test_views_that_double_are_refused() -> None:
    views = "".join(f"CREATE VIEW v{i} AS SELECT * FROM v{i - 1} UNION v{i - 1};" for i in range(1, 30))
    raised = refused(f"CREATE VIEW v0 AS SELECT * FROM m; {views}")
    assert raised.what == "the query has more than 2000 operators"
