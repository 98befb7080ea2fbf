"""Text of expressions: readable, and exact. DuckDB reads the text here, and only here, to compare with `evaluate`."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import EvaluationError, QueryError
from penstock.expr.evaluate.scalar import column_type, evaluate
from penstock.expr.text import KEYWORDS, quoted, text
from penstock.expr.tree import Call, Case, Cast, Column, Expr, Literal, Named

STREAM = pa.table(
    {
        "n": pa.array([0, 1, -7, None, 2**62, 5], pa.int64()),
        "small one": pa.array([3, None, -128, 127, 0, 1], pa.int8()),
        "x": pa.array([0.5, -0.0, math.nan, math.inf, None, 1e300], pa.float64()),
        "select": pa.array([Decimal("1.50"), Decimal("-0.05"), None, Decimal("0"), Decimal("9.99"), Decimal("2.25")]),
        'a "b".c': pa.array([True, False, None, True, False, None]),
        "NAME": pa.array(["", "ab'c", None, "%_", "Zürich", "12"]),
        "ts": pa.array([0, 1, None, -1, 10**15, 86_400_000_000], pa.timestamp("us")),
        "day": pa.array([0, -1, None, 18_000, 1, 2], pa.date32()),
        "raw": pa.array([b"", b"\x00\xff'", None, b"ab", b"\\x", b"a"]),
    }
)


def call(function: str, *arguments: Expr) -> Expr:
    return Call(function, arguments)


def lit(value: Any) -> Expr:
    return Literal(value)


A, B, C = Column("a"), Column("b"), Column("c")


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (call("+", A, call("*", B, C)), "a + b * c"),
        (call("*", call("+", A, B), C), "(a + b) * c"),
        (call("-", call("-", A, B), C), "a - b - c"),
        (call("-", A, call("-", B, C)), "a - (b - c)"),
        (call("-", call("-", A)), "-(-a)"),
        (call("-", A, lit(-1)), "a - -1"),
        (call("-", lit(-5)), "5"),
        (call("and", A, call("or", B, C)), "a AND (b OR c)"),
        (call("or", call("and", A, B), call("not", C)), "a AND b OR NOT c"),
        (call("not", call("and", A, B)), "NOT (a AND b)"),
        (call("not", call("=", A, B)), "NOT a = b"),
        (call("=", call("=", A, B), C), "(a = b) = c"),
        (call("!=", A, B), "a <> b"),
        (call("is_null", call("+", A, B)), "a + b IS NULL"),
        (call("is_not_null", call("or", A, B)), "(a OR b) IS NOT NULL"),
        (call("in", A, lit(1), lit("x")), "a IN (1, 'x')"),
        (call("between", A, B, call("+", C, lit(1))), "a BETWEEN b AND c + 1"),
        (call("like", A, lit("x!%"), lit("!")), "a LIKE 'x!%' ESCAPE '!'"),
        (call("is_distinct_from", A, B), "a IS DISTINCT FROM b"),
        (call("LOWER", call("||", A, B)), "lower(a || b)"),
        (Cast(A, "bigint"), "CAST(a AS BIGINT)"),
        (Cast(A, "DECIMAL(9, 2)", True), "TRY_CAST(a AS DECIMAL(9, 2))"),
        (Case(((A, lit(1)), (B, lit(2))), lit(None)), "CASE WHEN a THEN 1 WHEN b THEN 2 ELSE NULL END"),
    ],
)
def test_only_needed_parentheses_are_written(expression: Expr, expected: str) -> None:
    assert text(expression) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (True, "TRUE"),
        (1, "1"),
        (1.0, "1.0e0"),
        (1e22, "1e+22"),
        (Decimal("1.50"), "1.50"),
        (Decimal("2"), "CAST('2' AS DECIMAL(1, 0))"),
        ("it's", "'it''s'"),
        (b"\x00a", r"CAST('\x00\x61' AS BLOB)"),
        (date(2026, 1, 2), "DATE '2026-01-02'"),
        (datetime(2026, 1, 2, 3, 4, 5), "TIMESTAMP '2026-01-02 03:04:05'"),
        (datetime(2026, 1, 2, 3, tzinfo=timezone(timedelta(hours=2))), "TIMESTAMP '2026-01-02 01:00:00'"),
        (timedelta(seconds=10), "INTERVAL '10 seconds'"),
        (timedelta(days=1, microseconds=5), "INTERVAL '1 day 5 microseconds'"),
    ],
)
def test_constants(value: Any, expected: str) -> None:
    assert text(Literal(value)) == expected


def test_equal_python_values_of_different_types_have_different_texts() -> None:
    assert len({text(Literal(value)) for value in (1, True, 1.0, Decimal("1"), Decimal("1.0"))}) == 5


def test_names_are_quoted_where_needed() -> None:
    assert quoted("call_id") == "call_id"
    assert quoted("Select") == '"Select"'
    assert quoted('a."b') == '"a.""b"'
    assert quoted("") == '""'


def test_the_keywords_are_those_of_duckdb() -> None:
    query = "SELECT keyword_name FROM duckdb_keywords() WHERE keyword_category <> 'unreserved'"
    assert {name for (name,) in duckdb.connect().execute(query).fetchall()} <= KEYWORDS


def test_every_keyword_and_odd_name_can_be_read_back() -> None:
    connection = duckdb.connect()
    for name in [*KEYWORDS, "a b", 'q"q', "a.b", "é", "1st", "current_date", "rowid"]:
        row = connection.from_arrow(pa.table({name: [41]}))  # noqa: F841
        assert connection.sql(f"SELECT {text(call('+', Column(name), lit(1)))} FROM row").fetchall() == [(42,)]


COMPARISONS = "= <> < <= > >= is_distinct_from is_not_distinct_from"
integers = st.one_of(st.integers(-5, 5), st.sampled_from([2**31 - 1, -(2**31), 2**31, 2**63 - 1, -(2**63), 2**63]))
decimals = st.decimals(min_value=-999, max_value=999, places=2) | st.sampled_from([Decimal(7), Decimal("1E+2")])
moments = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30), timezones=st.sampled_from([None, UTC]))
spans = st.timedeltas(timedelta(days=-400), timedelta(days=400))
words = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=4) | st.sampled_from(["'", "%a", "1"])


def calls(names: str, *arguments: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    return st.builds(lambda name, *given: Call(name, given), st.sampled_from(names.split()), *arguments)


def cases(value: st.SearchStrategy[Expr], condition: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    branches = st.lists(st.tuples(condition, value), min_size=1, max_size=2).map(tuple)
    return st.builds(Case, branches, value)


def columns(*names: str) -> st.SearchStrategy[Expr]:
    return st.sampled_from(names).map(Column)


def trees(depth: int) -> dict[str, st.SearchStrategy[Expr]]:
    """Strategies for well-typed trees, by kind of value."""
    number = columns("n", "small one", "x", "select") | st.one_of(integers, st.floats(), decimals).map(Literal)
    truth = columns('a "b".c') | st.booleans().map(Literal)
    word = columns("NAME") | words.map(Literal)
    time = columns("ts", "day") | st.one_of(moments, st.dates(date(1, 1, 1))).map(Literal)
    raw = columns("raw") | st.binary(max_size=3).map(Literal)
    if depth == 0:
        return {"number": number, "truth": truth, "word": word, "time": time, "raw": raw}
    below = trees(depth - 1)
    n, t, w, m, r = below["number"], below["truth"], below["word"], below["time"], below["raw"]
    compare = st.one_of(*(calls(COMPARISONS, kind, kind) for kind in (n, w, m, r, t)))
    return {
        "number": number | calls("+ - * / // %", n, n) | calls("- abs floor", n) | calls("length", w) | cases(n, t)
        | calls("epoch_us year", m) | calls("coalesce nullif greatest", n, n) | calls("round", n, st.just(Literal(1))),
        "truth": truth | compare | calls("and or", t, t) | calls("and or", t, t, t) | calls("not", t)
        | calls("is_null is_not_null", st.one_of(n, t, w, m)) | calls("in", n, n, n) | calls("between", m, m, m)
        | calls("between", n, n, n) | calls("like ilike", w, w) | calls("like ilike", w, w, st.just(Literal("!"))),
        "word": word | calls("|| concat", w, w) | calls("lower upper trim reverse", w) | cases(w, t)
        | st.builds(Cast, st.one_of(n, t, m), st.just("VARCHAR")),
        "time": time | calls("+ -", m, spans.map(Literal)) | cases(m, t)
        | st.builds(Cast, m, st.sampled_from(["DATE", "timestamp"])),
        "raw": raw | cases(r, t),
    }  # fmt: skip


ORACLE = duckdb.connect(config={"threads": 1})
ORACLE.register("stream", STREAM)


def values(table: pa.Table) -> list[Any]:
    """The values of the first column; times as numbers, since Python's do not reach as far."""
    column, width = table.column(0), {"date32[day]": pa.int32(), "timestamp[us]": pa.int64()}
    return column.cast(width.get(str(column.type), column.type)).to_pylist()


def by_text(expression: Expr) -> list[Any] | None:
    """The values DuckDB gives for the text of the expression as a column; None where it fails."""
    try:
        stored = column_type(STREAM.schema, expression)
        relation = ORACLE.sql(f"SELECT CAST(value AS {stored}) FROM (SELECT {text(expression)} AS value FROM stream)")
        return values(relation.to_arrow_table())
    except (duckdb.Error, QueryError):
        return None


def by_tree(expression: Expr) -> list[Any] | None:
    try:
        return values(evaluate(STREAM, [Named("value", expression)]))
    except (EvaluationError, QueryError):
        return None


def dense(depth: int) -> dict[str, st.SearchStrategy[Expr]]:
    """Strategies for trees of nothing but operators that cannot fail, where every missing parenthesis shows."""
    if depth == 0:
        small = st.integers(-3, 3).map(Literal)
        # As a BIGINT: a product of SMALLINTs may overflow, and DuckDB's optimiser may or may not compute it.
        wide = st.just(Cast(Column("small one"), "BIGINT"))
        return {"number": wide | columns("x") | small, "truth": columns('a "b".c') | st.just(Literal(False))}
    n, t = (below | leaf for below, leaf in zip(dense(depth - 1).values(), dense(0).values(), strict=True))
    sums = calls("+ - *", n, n) | calls("-", n)
    tests = calls("= < >= is_distinct_from", n, n) | calls("is_null", t) | calls("between in", n, n, n)
    return {"number": sums, "truth": tests | calls("and or =", t, t) | calls("not", t)}


@settings(max_examples=300, deadline=None)
@given(st.one_of(*trees(3).values()))
def test_the_text_means_the_tree(expression: Expr) -> None:
    assert repr(by_text(expression)) == repr(by_tree(expression)), text(expression)


@settings(max_examples=300, deadline=None)
@given(st.one_of(*dense(3).values()))
def test_the_text_of_dense_operators_means_the_tree(expression: Expr) -> None:
    assert repr(by_text(expression)) == repr(by_tree(expression)), text(expression)


@settings(max_examples=150, deadline=None)
@given(st.one_of(integers, st.floats(), decimals, moments, spans, words, st.binary(max_size=5), st.booleans()))
def test_a_constant_keeps_its_value_and_type(value: Any) -> None:
    shown = Cast(Literal(value), "VARCHAR")
    assert by_text(shown) == by_tree(shown) is not None
    written = ORACLE.sql(f"SELECT {text(Literal(value))}").types[0]
    kinds = {bool: "BOOLEAN", float: "DOUBLE", str: "VARCHAR", bytes: "BLOB", timedelta: "INTERVAL"}
    assert str(written) == kinds.get(type(value), str(written))
