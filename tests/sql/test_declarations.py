"""CREATE SOURCE, SINK and VIEW."""

from __future__ import annotations

import pyarrow as pa
import pytest
from sql_case import CALLS, DECLARED, FakeConnector, parse, pointed_at, script_error

from penstock.errors import SourceError
from penstock.plan.logical import Source
from penstock.progress.mark import Ordered, Slack
from penstock.sql import Script


def source(columns: str, options: str = "connector = 'files'") -> Source:
    return parse(f"CREATE SOURCE s ({columns}) WITH ({options})").sources["s"]


def test_a_source_is_declared() -> None:
    assert parse(DECLARED).sources["calls"] == CALLS


def test_table_is_another_word_for_source() -> None:
    text = DECLARED.replace("CREATE SOURCE", "create table if not exists")
    assert parse(text) == parse(DECLARED)


@pytest.mark.parametrize(
    ("columns", "rule"),
    [
        ("ts TIMESTAMP, WATERMARK FOR ts AS ts", Ordered()),
        ("WATERMARK FOR ts AS TS - INTERVAL '1 minute 500 ms', ts TIMESTAMP(3)", Slack(60_500_000)),
        ("ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL 5 MINUTES", Slack(300_000_000)),
        ("ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '0' SECOND", Slack(0)),
        ("ts BIGINT, WATERMARK FOR ts AS ts", Ordered()),
        ("ts BIGINT, WATERMARK FOR ts AS ts - 5", Slack(5)),
    ],
)
def test_watermarks(columns: str, rule: object) -> None:
    found = source(columns)
    assert (found.time, found.progress) == ("ts", rule)


def test_types_of_columns() -> None:
    columns = 'a DOUBLE  PRECISION, b DECIMAL(10, 2), c VARCHAR(20), "group by" REAL, ts INT8, WATERMARK FOR ts AS ts'
    assert source(columns).schema == pa.schema(
        [
            ("a", pa.float64()),
            ("b", pa.decimal128(10, 2)),
            ("c", pa.string()),
            ("group by", pa.float32()),
            ("ts", pa.int64()),
        ]
    )


def test_without_columns_the_connector_is_asked_and_its_schema_normalised() -> None:
    found = source("WATERMARK FOR ts AS ts")
    assert found.schema == pa.schema([("k", pa.int64()), ("ts", pa.timestamp("us"))])


def test_options_are_text() -> None:
    options = "connector = 'kafka', 'Topic' = 'it''s', kafka.Group.id = 'a', n = -5, r = 0.50, eager = TRUE"
    assert source("WATERMARK FOR ts AS ts", options).connector == FakeConnector(
        "kafka",
        (("Topic", "it's"), ("kafka.group.id", "a"), ("n", "-5"), ("r", "0.50"), ("eager", "true")),
    )


def test_if_not_exists_keeps_the_first() -> None:
    script = parse(DECLARED + "CREATE VIEW IF NOT EXISTS calls AS SELECT * FROM ticks; SELECT * FROM calls")
    assert script.queries[0][1] == CALLS
    assert not script.views


def test_comments_and_empty_statements() -> None:
    assert parse("-- nothing; /* CREATE */\n;; /* ; */ ;") == Script({}, {}, (), (), {})


def test_errors_of_a_connector_keep_their_kind_and_say_where() -> None:
    with pytest.raises(SourceError) as raised:
        source("WATERMARK FOR ts AS ts", "connector = 'broken'")
    assert raised.value.what == "there is no such file"
    assert raised.value.hint == "look elsewhere"
    assert "line 1, column 15" in raised.value.detail


WITH = "WITH (connector = 'files')"


@pytest.mark.parametrize(
    ("text", "what", "hint", "place"),
    [
        (
            f"CREATE SOURCE s {WITH}",
            "source `s` has no WATERMARK",
            "WATERMARK FOR ts AS ts - INTERVAL '2' SECOND",
            "s WITH",
        ),
        (f"CREATE SOURCE s (ts TIMESTAMP) {WITH}", "source `s` has no WATERMARK", "WATERMARK FOR", "s ("),
        (
            f"CREATE SOURCE s (ts BIGINT, WATERMARK FOR t AS t) {WITH}",
            "unknown column `t`",
            "did you mean `ts`?",
            "FOR t",
        ),
        (
            f"CREATE SOURCE s (ts BIGINT, WATERMARK FOR ts AS tt) {WITH}",
            "the watermark of `ts` is computed from `tt`",
            "",
            "FOR",
        ),
        (
            f"CREATE SOURCE s (ts DATE, WATERMARK FOR ts AS ts) {WITH}",
            "column `ts` of type DATE cannot be a time column",
            "BIGINT",
            "FOR",
        ),
        (
            f"CREATE SOURCE s (ts TIMESTAMP, WATERMARK FOR ts AS ts - 5) {WITH}",
            "the slack of a TIMESTAMP is",
            "INTERVAL",
            "FOR",
        ),
        (
            f"CREATE SOURCE s (ts BIGINT, WATERMARK FOR ts AS ts - 5.5) {WITH}",
            "the slack of the BIGINT column",
            "ts - 5",
            "FOR",
        ),
        (
            f"CREATE SOURCE s (ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '-1' DAY) {WITH}",
            "the slack of a watermark is below",
            "",
            "FOR",
        ),
        (
            f"CREATE SOURCE s (ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '1' YEAR) {WITH}",
            "an interval in units of YEAR",
            "use days",
            "FOR",
        ),
        (
            f"CREATE SOURCE s (ts TIMESTAMP, WATERMARK FOR ts AS ts + 1) {WITH}",
            "a watermark is the time column",
            "",
            "FOR",
        ),
        (
            f"CREATE SOURCE s (a BIGNT, WATERMARK FOR a AS a) {WITH}",
            "unknown type `BIGNT`",
            "did you mean `BIGINT`?",
            "BIGNT",
        ),
        (
            f"CREATE SOURCE s (a DECIMAL(77), WATERMARK FOR a AS a) {WITH}",
            "the type DECIMAL(77) is impossible",
            "",
            "DEC",
        ),
        (
            f"CREATE SOURCE s (a BIGINT NOT NULL) {WITH}",
            "column constraints are not supported",
            "",
            "NOT",
        ),
        (f"CREATE SOURCE s (a INT, A INT) {WITH}", "column `A` is declared twice", "", "s ("),
        (
            "CREATE SOURCE s (WATERMARK FOR a AS a) WITH (path = 'x')",
            "WITH names no connector",
            "connector =",
            "s (",
        ),
        ("CREATE SOURCE s (WATERMARK FOR a AS a)", "syntax error: expected `WITH`", "connector = 'files'", ""),
        ("CREATE SOURCE s WITH (a = 1, a = 2)", "option `a` is given twice", "", "a = 2"),
        ("CREATE SOURCE s WITH (a = b)", "syntax error: `b` is not a value", "a string in '...'", "b)"),
        ("CREATE SOURCE s WITH (a 'b')", "syntax error: expected `=`, found `b`", "", "'b'"),
        ("CREATE SOURCE 5", "syntax error: expected the name of the source", "", "5"),
        ("CREATE INDEX i", "syntax error: only sources, sinks and views can be created", "CREATE SOURCE", "INDEX"),
        ("DROP TABLE x", "syntax error: `DROP` does not start a statement", "CREATE SOURCE", "DROP"),
        (f"CREATE SINK s FROM v {WITH}", "unknown source or view `v`", "CREATE SOURCE", "s FROM"),
        ("CREATE SINK s AS SELECT 1", "syntax error: expected `WITH`", "connector", ""),
        (f"CREATE SINK s {WITH} SELECT 1", "syntax error: expected `AS`, found `SELECT`", "AS SELECT", "SELECT"),
        (f"CREATE SINK s {WITH} AS", "syntax error: a query was expected here", "", ""),
        ("CREATE VIEW v SELECT 1", "syntax error: expected `AS`", "", "SELECT"),
        (
            f"{DECLARED}CREATE VIEW Calls AS SELECT * FROM ticks",
            "`calls` already exists",
            "IF NOT",
            "Calls",
        ),
    ],
)
def test_errors(text: str, what: str, hint: str, place: str) -> None:
    raised = script_error(text)
    assert raised.what.startswith(what)
    assert hint in raised.hint
    assert pointed_at(raised).startswith(place)
