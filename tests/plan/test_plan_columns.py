"""Which columns nodes have, which one is the time, and what columns are called by default."""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal

import pyarrow as pa
import pytest

from penstock.expr.tree import Call, Case, Cast, Column, Expr, Literal, Named
from penstock.operators.window.windows import Window
from penstock.plan.logical import Aggregate, Aggregation, Filter, Project, Source
from penstock.plan.naming import aggregate_name, default_name
from penstock.plan.schema import columns_of_node, time_column, time_type
from penstock.progress.mark import Ordered
from penstock.types import unique_name

A, TS = Column("a"), Column("ts")
SOURCE = Source("s", pa.schema([("a", pa.int32()), ("ts", pa.timestamp("us"))]), "ts", Ordered(), None)  # type: ignore[arg-type]
GROUPED = Aggregate(SOURCE, (Named("k", A),), Window("ts", 10, 10), (Aggregation("n", "count", None),))


def test_columns() -> None:
    assert columns_of_node(SOURCE) == ("a", "ts")
    assert columns_of_node(Filter(SOURCE, A)) == ("a", "ts")
    assert columns_of_node(Project(SOURCE, (Named("b", A),))) == ("b",)
    assert columns_of_node(GROUPED) == ("k", "window_start", "window_end", "n")


def test_time_is_followed_by_plain_reference_only() -> None:
    assert time_column(Filter(SOURCE, A)) == "ts"
    assert time_column(Project(SOURCE, (Named("a", A), Named("at", TS), Named("also", TS)))) == "at"
    assert time_column(Project(SOURCE, (Named("ts", Call("+", (TS, TS))),))) is None
    assert time_column(Filter(Project(SOURCE, (Named("ts", A),)), A)) is None
    assert time_column(GROUPED) == "window_start"
    assert time_column(Project(GROUPED, (Named("since", Column("window_start")),))) == "since"
    assert time_column(Project(Project(SOURCE, (Named("a", A),)), (Named("ts", A),))) is None


def test_the_type_of_time_stays() -> None:
    assert time_type(Project(GROUPED, (Named("n", Column("n")),))) == pa.timestamp("us")


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        (A, "a"),
        (Literal("it's"), "'it''s'"),
        (Literal(None), "NULL"),
        (Literal(True), "TRUE"),
        (Literal(Decimal("0.50")), "0.50"),
        (Literal(datetime(2024, 1, 2)), "TIMESTAMP '2024-01-02 00:00:00'"),
        (Literal(timedelta(minutes=1)), "INTERVAL '60 seconds'"),
        (Call("%", (A, Literal(100))), "a % 100"),
        (Call("*", (Call("+", (A, A)), Call("lower", (A,)))), "(a + a) * lower(a)"),
        (Call("-", (A,)), "-a"),
        (Call("not", (Call("like", (A, Literal("x"))),)), "NOT a LIKE 'x'"),
        (Call("is_null", (A,)), "a IS NULL"),
        (Cast(A, "INTEGER", lenient=True), "TRY_CAST(a AS INTEGER)"),
        (Case(((A, Literal(1)),), Literal(None)), "CASE WHEN a THEN 1 ELSE NULL END"),
    ],
)
def test_the_default_name_is_the_text(expression: Expr, text: str) -> None:
    assert default_name(expression) == text


def test_names() -> None:
    assert aggregate_name("count", None) == "count"
    assert aggregate_name("sum", A) == "sum_a"
    assert aggregate_name("sum", Call("+", (A, A))) == "sum"
    assert unique_name("a", {"a", "a_2"}) == "a_3"
    assert unique_name("b", {"a"}) == "b"
