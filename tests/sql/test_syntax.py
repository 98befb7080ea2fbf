"""Texts that are no scripts: where the error is shown, the limits, and garbage."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sql_case import DECLARED, error, parse, plan, pointed_at, script_error

from penstock.errors import PenstockError
from penstock.sql import parse_script
from penstock.sql.parse.place import ScriptText


def test_an_error_shows_line_column_and_caret() -> None:
    raised = script_error("-- a comment\n  SELECT (caller FRM\n")
    assert raised.detail == "script, line 2, column 18\n      SELECT (caller FRM\n                     ^"
    with pytest.raises(PenstockError) as named:
        parse_script("SELECT (1", connectors=None, name="daily.sql")  # type: ignore[arg-type]
    assert named.value.detail.startswith("daily.sql, line 1, column ")


@pytest.mark.parametrize(
    ("query", "what", "place"),
    [
        ("SELECT (caller FROM calls", "syntax error: expected `)` near `FROM`", "FROM"),
        ("SELECT caller + FROM calls", "syntax error: something is missing near `FROM`", "FROM"),
        ("SELECT caller FROM calls WHERE", "syntax error: something is missing near `WHERE`", "WHERE"),
        ("SELECT caller callee tag FROM calls", "syntax error at `tag`", "tag"),
        ("SELECT\n  caller\nFROM\n  calls WHERE caller >", "syntax error: something is missing near `>`", ">"),
        ("SELECT 'open FROM calls", "syntax error: a string, a quoted name or a comment is not closed", "'open"),
        ("SELECT 'shut', \"open FROM calls", "syntax error: a string, a quoted name", '"open'),
        ("SELECT 1 /* '''' */ /* open", "syntax error: a string, a quoted name", "/* open"),
        ("SELEC caller FROM calls", "syntax error: `SELEC` does not start a statement", "SELEC"),
        ("SELECT FROM calls", "the query selects nothing", "calls"),
    ],
)
def test_syntax_errors(query: str, what: str, place: str) -> None:
    raised = error(query)
    assert raised.what.startswith(what)
    assert pointed_at(raised).startswith(place)


def test_long_lines_are_cut_around_the_caret() -> None:
    text = ScriptText("x" * 500 + "!" + "y" * 500)
    _, line, caret = text.show(500).split("\n")
    assert line[caret.index("^")] == "!"
    assert len(line) < 110


def test_tabs_line_up() -> None:
    _, line, caret = ScriptText("\t\tab\tc").show(5).split("\n")
    assert line == "    \t\tab\tc"
    assert caret == "    \t\t  \t^"


def test_limits() -> None:
    assert script_error(" " * 65_537).what == "the script is too long"
    assert parse(" " * 65_536).queries == ()
    assert plan("SELECT " + "(" * 200 + "caller" + ")" * 200 + " FROM calls") == plan("SELECT caller FROM calls")
    before = sys.getrecursionlimit()
    deep = [
        "SELECT " + "(" * 201 + "caller" + ")" * 201 + " FROM calls",
        "SELECT " + "caller + " * 201 + "1 FROM calls",
        "SELECT " + "NOT " * 15_000 + "caller FROM calls",
        "SELECT " + "- " * 20_000 + "caller FROM calls",
        "SELECT * FROM " + "(SELECT * FROM " * 150 + "calls" + ")" * 150,
        "".join(f"CREATE VIEW v{i} AS SELECT * FROM {f'v{i - 1}' if i else 'calls'} WHERE true;" for i in range(202)),
    ]
    for query in deep:
        assert error(query).what == "the query is nested more than 200 levels deep"
    assert sys.getrecursionlimit() == before


def test_operands_that_would_double_are_refused() -> None:
    raised = error("SELECT " + "CASE " * 60 + "caller" + " WHEN 1 THEN 2 WHEN 3 THEN 4 END" * 60 + " FROM calls")
    assert raised.what == "the operand of CASE is too large"


KEYWORDS = (
    "SELECT FROM WHERE GROUP BY HAVING CREATE SOURCE SINK VIEW TABLE WITH AS SET WATERMARK FOR IF NOT EXISTS INTERVAL "
    "TUMBLE HOP RANGE SLIDE WA ROWS DESCRIPTOR window_start calls ticks ts n caller x count sum CASE WHEN THEN ELSE "
    "END CAST EXTRACT BETWEEN IN LIKE IS NULL AND OR DISTINCT FILTER OVER JOIN ON UNION ORDER LIMIT TRUE VALUES PIVOT "
    "LEFT FULL SEMI ANTI USING CROSS NATURAL ALL EXCEPT SESSION QUALIFY ROW_NUMBER() PARTITION c.ts t.n LATERAL EXISTS "
    "MAP SECOND MONTH BIGINT connector ( ) ( ) [ ] { } , , ; . * + - / // % = < > <> :: => := : | & ~ @ $ ? ! '1' 'a' "
    '"q" 1 5 0.5 1e9 99999999999999999999 -- /* */ '
)
WORDS = [*KEYWORDS.split(), "'", '"', "$$", "\n", "\t", "\0", "é", "🙂", "'a b'"]
SOUP = st.lists(st.sampled_from(WORDS), max_size=40).map(" ".join)
QUERY = st.tuples(
    st.sampled_from(
        [
            "SELECT ",
            "SELECT count(*) FROM calls [",
            "SELECT sum(",
            "CREATE SOURCE s (",
            "SELECT * FROM HOP(",
            "SELECT * FROM calls c JOIN ticks t ON ",
            "SELECT * FROM calls c, calls d WHERE c.caller = d.caller AND ",
            "SELECT * FROM calls UNION ",
            "SELECT * FROM calls QUALIFY ROW_NUMBER() OVER (",
            "WITH x AS (SELECT * FROM calls) SELECT * FROM x ",
        ]
    ),
    SOUP,
    st.sampled_from(
        ["", " FROM calls", ") FROM calls GROUP BY 1", "]", ") WITH (connector = 'f')", " GROUP BY caller"]
    ),
).map("".join)


@settings(max_examples=400, deadline=None)
@given(st.one_of(SOUP, QUERY, st.text(max_size=60)))
def test_garbage_raises_nothing_but_penstock_errors(text: str) -> None:
    assert outcome(DECLARED + text)


def outcome(text: str) -> str:
    try:
        return repr(parse(text))
    except PenstockError as raised:
        return str(raised)
