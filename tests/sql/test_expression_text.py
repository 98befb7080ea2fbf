"""Scalar expressions: from text to trees."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from decimal import Decimal

import pytest
from sql_case import error, plan, pointed_at

from penstock.expr.tree import Call, Case, Cast, Column, Expr, Literal

X, TAG, TS = Column("duration"), Column("tag"), Column("ts")


def expression(text: str) -> Expr:
    (named,) = plan(f"SELECT {text} AS e FROM calls").columns
    return named.expression


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("duration // 2", Call("//", (X, Literal(2)))),
        ("duration ** 2", Call("pow", (X, Literal(2)))),
        ("duration + 1 * 2", Call("+", (X, Call("*", (Literal(1), Literal(2)))))),
        ("(duration - 1) % 2", Call("%", (Call("-", (X, Literal(1))), Literal(2)))),
        ("-duration", Call("-", (X,))),
        ("duration != 1", Call("<>", (X, Literal(1)))),
        ("duration >= 1 AND tag = 'a' OR NOT tag = 'b'",
         Call("or", (Call("and", (Call(">=", (X, Literal(1))), Call("=", (TAG, Literal("a"))))),
                     Call("not", (Call("=", (TAG, Literal("b"))),))))),
        ("duration BETWEEN 1 AND 2", Call("between", (X, Literal(1), Literal(2)))),
        ("duration NOT BETWEEN 1 AND 2", Call("not", (Call("between", (X, Literal(1), Literal(2))),))),
        ("tag IN ('a', 'b')", Call("in", (TAG, Literal("a"), Literal("b")))),
        ("tag NOT IN ('a')", Call("not", (Call("in", (TAG, Literal("a"))),))),
        ("tag LIKE 'a%'", Call("like", (TAG, Literal("a%")))),
        ("tag NOT ILIKE 'a!%' ESCAPE '!'", Call("not", (Call("ilike", (TAG, Literal("a!%"), Literal("!"))),))),
        ("tag IS NULL", Call("is_null", (TAG,))),
        ("tag IS NOT NULL", Call("is_not_null", (TAG,))),
        ("(duration > 1) IS NOT TRUE",
         Call("not", (Call("is_not_distinct_from", (Call(">", (X, Literal(1))), Literal(True))),))),
        ("tag IS DISTINCT FROM 'a'", Call("is_distinct_from", (TAG, Literal("a")))),
        ("CASE WHEN duration > 1 THEN 'l' ELSE 's' END",
         Case(((Call(">", (X, Literal(1))), Literal("l")),), Literal("s"))),
        ("CASE tag WHEN 'a' THEN 1 END", Case(((Call("=", (TAG, Literal("a"))), Literal(1)),), Literal(None))),
        ("CAST(duration AS INT)", Cast(X, "INTEGER")),
        ("duration::varchar(9)", Cast(X, "VARCHAR")),
        ("TRY_CAST(tag AS DECIMAL(10, 2))", Cast(TAG, "DECIMAL(10, 2)", lenient=True)),
        ("tag::TIMESTAMP", Cast(TAG, "TIMESTAMP")),
        ("EXTRACT(HOUR FROM ts)", Call("date_part", (Literal("hour"), TS))),
        ("date_trunc('minute', ts)", Call("date_trunc", (Literal("minute"), TS))),
        ("ts - INTERVAL '1' MINUTE", Call("-", (TS, Literal(timedelta(minutes=1))))),
        ("ts + INTERVAL '1 day 90 min'", Call("+", (TS, Literal(timedelta(days=1, minutes=90))))),
        ("INTERVAL 1500 MILLISECONDS", Literal(timedelta(seconds=1.5))),
        ("Coalesce(tag, 'none')", Call("coalesce", (TAG, Literal("none")))),
        ("if(duration > 1, 1, 0)", Call("if", (Call(">", (X, Literal(1))), Literal(1), Literal(0)))),
        ("substr(tag, 1, 2) || 'x'", Call("||", (Call("substr", (TAG, Literal(1), Literal(2))), Literal("x")))),
    ],
)  # fmt: skip
def test_expressions(text: str, expected: Expr) -> None:
    assert expression(text) == expected


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("5", 5),
        ("-5", -5),
        ("-9223372036854775808", -(2**63)),
        ("0.1", Decimal("0.1")),
        (".5", Decimal("0.5")),
        ("-0.1", Decimal("-0.1")),
        ("1e3", 1000.0),
        ("'it''s'", "it's"),
        ("TRUE", True),
        ("NULL", None),
        ("DATE '2024-02-29'", date(2024, 2, 29)),
        ("TIMESTAMP '2024-02-29 10:11:12'", datetime(2024, 2, 29, 10, 11, 12)),
        ("'2024-02-29T10:11:12.5'::VARCHAR", None),
    ],
)
def test_constants(text: str, value: object) -> None:
    if "::" in text:
        assert expression(text) == Cast(Literal("2024-02-29T10:11:12.5"), "VARCHAR")
        return
    found = expression(text)
    assert isinstance(found, Literal)
    assert (found.value, type(found.value)) == (value, type(value))


@pytest.mark.parametrize(
    ("text", "what", "hint", "place"),
    [
        ("lowr(tag)", "unknown function `lowr`", "did you mean `lower`?", "lowr"),
        ("now()", "`now` cannot be used in a continuous query", "event time", "now"),
        ("lower(tag, 1)", "`lower` takes 1 argument, not 2", "", "lower"),
        ("CAST(tag AS INTT)", "unknown type `INTT`", "did you mean `", "tag"),
        ("CAST(tag AS DECIMAL(99, 1))", "the type DECIMAL(99, 1) is impossible", "", "tag"),
        ("INTERVAL 'soon'", "the interval `soon` cannot be read", "INTERVAL '10' SECOND", "'soon'"),
        ("INTERVAL '5' FORTNIGHT", "unknown unit of time `FORTNIGHT`", "`MINUTE`", "'5'"),
        ("ts + INTERVAL '1' MONTH", "an interval in units of MONTH cannot be used", "use days", "'1'"),
        ("ts + INTERVAL caller DAY", "the amount of an INTERVAL is a constant", "n * INTERVAL", "caller"),
        ("tag[duration]", "brackets take a constant number or string", "tags[1]", "tag"),
        ("caller IN (SELECT 1)", "IN takes a list of values", "", "caller"),
        ("99999999999999999999", "the number 99999999999999999999 does not fit in 64 bits", "1e20", "9"),
        ("DATE '2023-02-29'", "`2023-02-29` is not a date", "", "'2023"),
        ("upper(*)", "this kind of expression is not supported: star", "", "*"),
    ],
)  # fmt: skip
def test_expression_errors(text: str, what: str, hint: str, place: str) -> None:
    raised = error(f"SELECT {text} AS e FROM calls")
    assert raised.what == what
    assert hint in raised.hint
    assert pointed_at(raised).startswith(place)


def test_where_has_no_aggregates() -> None:
    assert "aggregate in HAVING" in error("SELECT caller FROM calls WHERE sum(duration) > 1").what
