"""Queries without aggregates."""

from __future__ import annotations

import pytest
from sql_case import CALLS, error, parse, plan, pointed_at

from penstock.expr.tree import Call, Column, Literal, Named
from penstock.plan.logical import Filter, Project


def test_select_star_adds_nothing() -> None:
    assert plan("SELECT * FROM calls") == CALLS


def test_star_with_where_is_only_a_filter() -> None:
    assert plan("SELECT * FROM calls WHERE district = 3") == Filter(CALLS, Call("=", (Column("district"), Literal(3))))


def test_select_list_is_a_projection_over_the_filter() -> None:
    assert plan("SELECT caller AS who, duration / 60 AS minutes, ts FROM calls WHERE duration > 0") == Project(
        Filter(CALLS, Call(">", (Column("duration"), Literal(0)))),
        (
            Named("who", Column("caller")),
            Named("minutes", Call("/", (Column("duration"), Literal(60)))),
            Named("ts", Column("ts")),
        ),
    )


def test_star_among_others_is_all_columns() -> None:
    columns = plan("SELECT c.*, c.caller + 1 AS next FROM calls AS c").columns
    assert [c.name for c in columns] == [*CALLS.schema.names, "next"]


def test_names_without_alias_are_the_column_or_the_text_made_unique() -> None:
    columns = plan("SELECT caller, caller, (caller % 100) * 2, lower(tag), -caller, tag || 'it''s' FROM calls").columns
    assert [c.name for c in columns] == [
        "caller", "caller_2", "caller % 100 * 2", "lower(tag)", "-caller", "tag || 'it''s'",
    ]  # fmt: skip


def test_names_are_found_in_any_case_and_keep_their_own() -> None:
    assert plan('SELECT DISTRICT, "Caller" FROM Calls') == plan("SELECT district, caller FROM calls")


def test_from_first_and_trailing_semicolons() -> None:
    assert plan("FROM calls SELECT caller;;") == plan("SELECT caller FROM calls")


def test_subquery_and_view_give_the_same_plan() -> None:
    inner = "SELECT caller AS who, ts FROM calls WHERE duration > 1"
    by_view = plan(f"CREATE VIEW long AS {inner}; SELECT who FROM long WHERE who <> 7")
    assert by_view == plan(f"SELECT who FROM ({inner}) AS s WHERE s.who <> 7")
    assert isinstance(by_view, Project)
    assert isinstance(by_view.input, Filter)
    assert isinstance(by_view.input.input, Project)


def test_a_view_of_an_aggregate_can_be_filtered() -> None:
    node = plan(
        "CREATE VIEW v AS SELECT district, count(*) AS n FROM calls [RANGE 1 MINUTE] GROUP BY district;"
        "SELECT * FROM v WHERE n > 5"
    )
    assert isinstance(node, Filter)
    assert node.predicate == Call(">", (Column("n"), Literal(5)))


@pytest.mark.parametrize(
    ("query", "what", "hint", "place"),
    [
        (
            "SELECT durration FROM calls",
            "unknown column `durration` in stream `calls`",
            "did you mean `duration`?",
            "durr",
        ),
        ("SELECT c.x FROM calls AS c", "unknown column `x` in stream `c`", "known: `caller`", "c.x"),
        ("SELECT d.ts FROM calls AS c", "unknown stream `d`", "known: `c`", "d.ts"),
        ("SELECT * FROM cals", "unknown source or view `cals`", "did you mean `calls`?", "cals"),
        ("SELECT caller AS a, callee AS a FROM calls", "two columns of the result are called `a`", "", "callee"),
        ("SELECT caller FROM calls ORDER BY caller", "ORDER BY is not supported", "sort where", "caller"),
        ("SELECT caller FROM calls LIMIT 3", "LIMIT is not supported", "filter with WHERE", "3"),
        ("SELECT * EXCLUDE (caller) FROM calls", "`*` cannot be modified", "list the columns", "* EXCLUDE"),
        ("SELECT * FROM calls AS c(a, b)", "an alias in FROM cannot name columns", "in the SELECT", "c(a"),
        ("SELECT (SELECT 1) FROM calls", "a query inside an expression is not supported", "in FROM", "1"),
    ],
)
def test_what_cannot_be_planned_says_so(query: str, what: str, hint: str, place: str) -> None:
    raised = error(query)
    assert raised.what == what
    assert hint in raised.hint
    assert pointed_at(raised).startswith(place)


def test_a_query_needs_a_source() -> None:
    assert error("SELECT 1").what == "the query has no FROM"
    assert error("SELECT * FROM read_csv('x')").what == "unknown window `read_csv`"


def test_queries_are_numbered_and_settings_kept() -> None:
    script = parse(
        "CREATE SOURCE s (n BIGINT, WATERMARK FOR n AS n) WITH (connector = 'files');"
        "SELECT n FROM s; SET sites = 4; SET spark.master = 'local[2]'; SET fast = true; SET ratio TO -0.5;"
        "SET mode = Big;"
        "SELECT * FROM s -- the end"
    )
    assert [name for name, _ in script.queries] == ["query_1", "query_2"]
    assert script.settings == {"sites": 4, "spark.master": "local[2]", "fast": True, "ratio": -0.5, "mode": "Big"}
