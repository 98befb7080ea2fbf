"""`WATERMARK FOR ts BY PUNCTUATION WHERE ...`, and sources that may be idle."""

from __future__ import annotations

import pytest
from sql_case import parse, pointed_at, script_error

from penstock.errors import ConfigError
from penstock.expr.tree import Call, Column, Literal
from penstock.plan.logical import Source
from penstock.progress.mark import Ordered, Punctuated, Slack

IS_MARK = Call("=", (Column("kind"), Literal("mark")))


def source(clause: str, options: str = "") -> Source:
    return parse(declared(clause, options)).sources["s"]


def declared(clause: str, options: str = "") -> str:
    return f"CREATE SOURCE s (kind VARCHAR, n BIGINT, {clause}, ts TIMESTAMP) WITH (connector = 'files'{options});"


def test_rows_that_are_punctuation() -> None:
    found = source("WATERMARK FOR TS BY PUNCTUATION WHERE kind = 'mark'")
    assert (found.time, found.progress) == ("ts", Punctuated(IS_MARK, keep=False))


def test_keep_rows() -> None:
    assert source("WATERMARK FOR ts BY PUNCTUATION WHERE kind = 'mark' KEEP ROWS").progress == Punctuated(IS_MARK, True)
    assert source("watermark for ts by punctuation where (kind = 'mark') keep rows").progress == Punctuated(
        IS_MARK, True
    )


def test_the_condition_may_hold_commas_and_columns_that_are_declared_behind_it() -> None:
    found = source("WATERMARK FOR n BY PUNCTUATION WHERE kind IN ('mark', 'end') AND ts IS NOT NULL")
    members = Call("in", (Column("kind"), Literal("mark"), Literal("end")))
    expected = Call("and", (members, Call("is_not_null", (Column("ts"),))))
    assert (found.time, found.progress) == ("n", Punctuated(expected))


def test_a_column_may_be_called_keep() -> None:
    text = "CREATE SOURCE s (keep BOOLEAN, ts BIGINT, WATERMARK FOR ts BY PUNCTUATION WHERE keep KEEP ROWS)"
    found = parse(text + " WITH (connector = 'files')").sources["s"]
    assert found.progress == Punctuated(Column("keep"), True)


@pytest.mark.parametrize(
    ("clause", "what", "place"),
    [
        ("WATERMARK FOR ts BY PUNCTUATION", "expected `PUNCTUATION WHERE`", "PUNCTUATION"),
        ("WATERMARK FOR ts BY kind = 'mark'", "expected `PUNCTUATION WHERE`", "kind"),
        ("WATERMARK FOR ts BY PUNCTUATION WHERE", "a condition was expected", ", ts"),
        ("WATERMARK FOR ts BY PUNCTUATION WHERE kin = 'mark'", "unknown column `kin`", "kin ="),
        ("WATERMARK FOR ts BY PUNCTUATION WHERE n", "is of type BIGINT, not BOOLEAN", "n, ts"),
        ("WATERMARK FOR ts BY PUNCTUATION WHERE count(*) > 1", "an aggregate is not allowed here", "count"),
        ("WATERMARK FOR ts BY PUNCTUATION WHERE n > 1 FROM other", "one condition was expected", "n > 1"),
        ("WATERMARK FOR ts BY PUNCTUATION WHERE DISTINCT n > 1", "a condition was expected", "DISTINCT"),
        ("WATERMARK FOR ts BY PUNCTUATION WHERE n > 1 AS x", "one condition was expected", "n > 1"),
        ("WATERMARK FOR kind BY PUNCTUATION WHERE n > 1", "cannot be a time column", "FOR kind"),
    ],
)
def test_what_is_refused_and_where(clause: str, what: str, place: str) -> None:
    raised = script_error(declared(clause))
    assert what in raised.what
    assert pointed_at(raised).startswith(place)


def test_a_source_may_be_idle() -> None:
    assert source("WATERMARK FOR ts AS ts", ", idle = '10 seconds'").idle == 10_000_000
    found = source("WATERMARK FOR ts AS ts", ", path = 'p'")
    assert (found.idle, found.progress) == (None, Ordered())
    assert dict(source("WATERMARK FOR ts AS ts", ", idle = '1s', path = 'p'").connector.options) == {"path": "p"}  # type: ignore[attr-defined]


def test_an_idle_time_needs_a_unit_and_a_length() -> None:
    with pytest.raises(ConfigError, match="must be above zero"):
        parse(declared("WATERMARK FOR ts AS ts", ", idle = '0s'"))
    with pytest.raises(ConfigError, match="`10` is not a span of time"):
        parse(declared("WATERMARK FOR ts AS ts", ", idle = 10"))


def test_a_source_may_allow_lateness() -> None:
    assert source("WATERMARK FOR ts AS ts", ", allowed_lateness = '10s'").progress == Ordered(10_000_000)
    slack = source("WATERMARK FOR ts AS ts - INTERVAL '2' SECOND", ", allowed_lateness = '1 minute'").progress
    assert slack == Slack(2_000_000, 60_000_000)


def test_an_allowed_lateness_needs_a_unit_where_times_are_timestamps() -> None:
    with pytest.raises(ConfigError, match="has no unit"):
        parse(declared("WATERMARK FOR ts AS ts", ", allowed_lateness = 10"))
    with pytest.raises(ConfigError, match="not a span of time"):
        parse(declared("WATERMARK FOR ts AS ts", ", allowed_lateness = 'soon'"))
