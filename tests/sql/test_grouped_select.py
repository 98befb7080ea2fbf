"""Aggregates, keys, HAVING: the canonical plan and its names."""

from __future__ import annotations

import pytest
from sql_case import CALLS, DECLARED, TUMBLE, aggregate, error, parse, plan, pointed_at

from penstock.expr.tree import Call, Case, Column, Expr, Literal, Named
from penstock.plan.logical import Aggregate, Aggregation, Filter, Project, Sink

FROM = "FROM TUMBLE(calls, ts, INTERVAL '1' MINUTE)"
X, DISTRICT = Column("duration"), Column("district")


def one(call: str) -> Aggregation:
    """The aggregate of a query that has one."""
    (found,) = aggregate(f"SELECT {call} AS a {FROM} GROUP BY window_start").aggregates
    assert found.name == "a"
    return found


@pytest.mark.parametrize(
    ("call", "function", "argument"),
    [
        ("count(*)", "count", None),
        ("COUNT(tag)", "count", Column("tag")),
        ("count(DISTINCT tag)", "count_distinct", Column("tag")),
        ("sum(duration)", "sum", X),
        ("avg(duration)", "avg", X),
        ("mean(duration)", "avg", X),
        ("min(duration)", "min", X),
        ("max(duration)", "max", X),
        ("stddev(duration)", "stddev", X),
        ("stddev_samp(duration)", "stddev", X),
        ("stddev_pop(duration)", "stddev_pop", X),
        ("variance(duration)", "variance", X),
        ("var_samp(duration)", "variance", X),
        ("var_pop(duration)", "var_pop", X),
        ("first(duration)", "first", X),
        ("first_value(duration)", "first", X),
        ("last(duration)", "last", X),
        ("last_value(duration)", "last", X),
        ("sum(duration * 2)", "sum", Call("*", (X, Literal(2)))),
    ],
)
def test_aggregates(call: str, function: str, argument: Expr | None) -> None:
    assert one(call) == Aggregation("a", function, argument)


def test_filter_becomes_a_case() -> None:
    long = Call(">", (X, Literal(60)))
    assert one("sum(duration) FILTER (WHERE duration > 60)").argument == Case(((long, X),), Literal(None))
    assert one("count(*) FILTER (WHERE duration > 60)") == Aggregation(
        "a", "count", Case(((long, Literal(1)),), Literal(None))
    )
    assert one("count(DISTINCT tag) FILTER (WHERE duration > 60)").function == "count_distinct"


def test_the_whole_plan() -> None:
    query = f"""
        SELECT district % 10 AS area, window_start AS since, count(*) AS n, sum(duration) / count(*) AS mean {FROM}
        WHERE duration > 0 GROUP BY district % 10, window_start HAVING max(duration) > 5 AND n > 1"""
    area = Call("%", (DISTRICT, Literal(10)))
    grouped = Aggregate(
        Filter(CALLS, Call(">", (X, Literal(0)))),
        (Named("area", area),),
        TUMBLE,
        (Aggregation("n", "count", None), Aggregation("agg_1", "sum", X), Aggregation("agg_2", "max", X)),
    )
    having = Call("and", (Call(">", (Column("agg_2"), Literal(5))), Call(">", (Column("n"), Literal(1)))))
    assert plan(query) == Project(
        Filter(grouped, having),
        (
            Named("area", Column("area")),
            Named("since", Column("window_start")),
            Named("n", Column("n")),
            Named("mean", Call("/", (Column("agg_1"), Column("n")))),
        ),
    )


def test_the_sink_of_a_query() -> None:
    query = f"SELECT count(*) AS n {FROM} GROUP BY window_start"
    options = "(connector = 'files', path = 'out')"
    before = parse(f"{DECLARED} CREATE SINK busy WITH {options} AS {query}").sinks
    behind = parse(f"{DECLARED} CREATE SINK busy AS {query} WITH {options}").sinks
    of_view = parse(f"{DECLARED} CREATE MATERIALIZED VIEW v AS {query}; CREATE SINK busy FROM v WITH {options}").sinks
    assert before == behind == of_view
    assert before[0].name == "busy"
    assert isinstance(before[0].sink, Sink)
    assert before[0].sink.input == plan(query)
    assert before[0].sink.connector.identity() == {"kind": "files", "path": "out"}


def names(select: str, group: str = "window_start") -> tuple[list[str], list[str], list[str]]:
    """The names of keys and aggregates in the Aggregate, and of the result's columns."""
    project = plan(f"SELECT {select} {FROM} GROUP BY {group}")
    inner = project.input
    return [k.name for k in inner.keys], [a.name for a in inner.aggregates], [c.name for c in project.columns]


def test_default_names() -> None:
    assert names("count(*), sum(duration), sum(duration + 1), sum(duration + 2), count(DISTINCT tag)") == (
        [],
        ["count", "sum_duration", "sum", "sum_2", "count_distinct_tag"],
        ["count", "sum_duration", "sum", "sum_2", "count_distinct_tag"],
    )


def test_identical_aggregates_are_shared() -> None:
    assert names("count(*) AS n, count(*) AS m, count(*) + 1 AS k")[1:] == (["n"], ["n", "m", "k"])
    assert names("count(*) + 1 AS k, count(*) AS n")[1] == ["n"]


def test_aggregates_of_an_integer_and_of_a_decimal_are_not_identical() -> None:
    assert len(names("max(caller * 2) AS a, max(caller * 2.0) AS b")[1]) == 2


def test_names_that_are_taken_get_a_number() -> None:
    assert names("district AS window_start, count(*) AS agg_1, sum(duration) + 1 AS c", "district, window_end") == (
        ["window_start_2"],
        ["agg_1", "agg_2"],
        ["window_start", "agg_1", "c"],
    )


def test_unnamed_expressions_go_by_their_text() -> None:
    assert names("sum(duration) / count(*), district + 1", "district, window_start")[2] == [
        "sum(duration) / count()", "district + 1",
    ]  # fmt: skip


@pytest.mark.parametrize("group", ["district % 10, tag", "1, 2", "area, tag", "AREA, tag, tag, (district % 10)"])
def test_keys_by_expression_position_and_alias(group: str) -> None:
    keys = aggregate(f"SELECT district % 10 AS area, tag, count(*) {FROM} GROUP BY {group}, window_start").keys
    assert keys == (Named("area", Call("%", (DISTRICT, Literal(10)))), Named("tag", Column("tag")))


def test_a_column_goes_before_an_alias_in_group_by() -> None:
    node = plan(f"SELECT district % 10 AS district, count(*) {FROM} GROUP BY district, window_start")
    assert node.input.keys == (Named("district", DISTRICT),)
    assert node.columns[0] == Named("district", Call("%", (DISTRICT, Literal(10))))


def test_window_by_position_and_alias() -> None:
    by_name = plan(f"SELECT window_end AS e, count(*) {FROM} GROUP BY window_end")
    assert plan(f"SELECT window_end AS e, count(*) {FROM} GROUP BY 1") == by_name
    assert plan(f"SELECT window_end AS e, count(*) {FROM} GROUP BY e") == by_name


def test_a_key_goes_by_its_first_alias() -> None:
    assert names("district AS a, district AS b, count(*) AS n", "district, window_start") == (
        ["a"],
        ["n"],
        ["a", "b", "n"],
    )


def test_a_key_need_not_be_selected() -> None:
    assert names("count(*)", "lower(tag), window_start")[0] == ["lower(tag)"]


@pytest.mark.parametrize(
    ("select", "rest", "what", "hint", "place"),
    [
        (
            "caller, count(*)",
            "GROUP BY window_start",
            "column `caller` is neither in GROUP BY nor",
            "first(caller)",
            "caller",
        ),
        (
            "count(*)",
            "GROUP BY window_start HAVING caller > 1",
            "column `caller` is neither in GROUP BY nor",
            "add",
            "caller",
        ),
        (
            "district + 1, count(*)",
            "GROUP BY district + 2, window_start",
            "column `district` is neither",
            "",
            "district",
        ),
        ("count(*)", "GROUP BY window_start, 3", "GROUP BY 3 is not a position", "", "3"),
        ("count(*) AS n", "GROUP BY window_start, n", "an aggregate is not allowed in GROUP BY", "", "n"),
        ("count(*) AS n", "GROUP BY window_start, sum(caller)", "an aggregate is not allowed in GROUP BY", "", "sum"),
        (
            "count(*)",
            "GROUP BY date_trunc('hour', window_start)",
            "GROUP BY takes window_start",
            "in SELECT",
            "date_trunc",
        ),
        (
            "count(*)",
            "GROUP BY window_start, ditrict",
            "unknown column `ditrict`",
            "did you mean `district`?",
            "ditrict",
        ),
        ("count(*)", "GROUP BY ROLLUP(window_start)", "this kind of expression is not supported: rollup", "", ""),
        ("count(*)", "GROUP BY ALL", "GROUP BY takes a list of expressions", "one by one", ""),
        ("*, count(*)", "GROUP BY window_start", "`*` cannot be selected from groups", "list the columns", ""),
        ("median(duration)", "GROUP BY window_start", "unknown aggregate `median`", "`avg`", "median"),
        ("sum(count(*))", "GROUP BY window_start", "an aggregate cannot be inside another one", "", "count"),
        ("sum(*)", "GROUP BY window_start", "`sum` needs a column or an expression", "sum(x)", "sum"),
        ("sum(caller, 2)", "GROUP BY window_start", "`sum` takes one argument", "", "sum"),
        (
            "sum(DISTINCT caller)",
            "GROUP BY window_start",
            "DISTINCT inside `sum` is not supported",
            "count(DIST",
            "sum",
        ),
        (
            "count(DISTINCT caller, tag)",
            "GROUP BY window_start",
            "count(DISTINCT x) takes one argument",
            "concat_ws",
            "count",
        ),
        ("sum(calller)", "GROUP BY window_start", "unknown column `calller`", "did you mean `caller`?", "calller"),
        (
            "first(caller ORDER BY tag)",
            "GROUP BY window_start",
            "this kind of expression is not supported: order",
            "",
            "caller",
        ),
        (
            "lower(tag) FILTER (WHERE caller > 1), count(*)",
            "GROUP BY window_start",
            "unknown aggregate `lower`",
            "",
            "lower",
        ),
    ],
)
def test_errors(select: str, rest: str, what: str, hint: str, place: str) -> None:
    raised = error(f"SELECT {select} {FROM} {rest}")
    assert raised.what.startswith(what)
    assert hint in raised.hint
    assert pointed_at(raised).startswith(place)
