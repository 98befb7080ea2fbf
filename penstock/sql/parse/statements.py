"""Split the tokens at `;` into statements and parse each by its first words.

`WATERMARK FOR ts AS ts - INTERVAL '2' SECOND` declares the time column and the greatest lateness of a row. `WATERMARK
FOR ts BY PUNCTUATION WHERE kind = 'mark'` declares punctuation: rows that match the condition advance the watermark and
are not rows of the stream, unless KEEP ROWS follows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import pyarrow as pa
from sqlglot.tokens import Token, TokenType

from penstock.arrow import AnyField
from penstock.sql.parse.cursor import Cursor, is_word
from penstock.sql.parse.literals import type_named
from penstock.sql.parse.options import Options, Value, setting, with_options
from penstock.sql.parse.place import ScriptText

HOW_WATERMARK = (
    "write WATERMARK FOR ts AS ts - INTERVAL '2' SECOND among the columns, with the greatest lateness of a row; "
    "or WATERMARK FOR ts AS ts if rows come in order"
)
HOW_PUNCTUATED = "write WATERMARK FOR ts BY PUNCTUATION WHERE kind = 'mark', then KEEP ROWS if those rows are data too"
_CONSTRAINTS = ("NOT", "NULL", "PRIMARY", "UNIQUE", "DEFAULT", "CHECK", "REFERENCES", "GENERATED", "METADATA", "AS")
_STATEMENTS = "a script has CREATE SOURCE, CREATE SINK, CREATE VIEW, SELECT and SET statements, separated by `;`"


@dataclass(frozen=True)
class Punctuation:
    """The condition of punctuation rows, before the columns are known. Invariant: `predicate` has at least one
    token."""

    predicate: tuple[Token, ...]
    keep: bool


@dataclass(frozen=True)
class Watermark:
    """A WATERMARK clause, before the type of its column is known.

    `told` is the slack as tokens, empty if rows arrive in order, or the punctuation.
    """

    column: str
    told: tuple[Token, ...] | Punctuation
    offset: int


@dataclass(frozen=True)
class CreateSource:
    """A CREATE SOURCE statement. `schema` is None if no columns are declared, `watermark` if the clause is missing."""

    name: str
    offset: int
    if_new: bool
    schema: pa.Schema | None
    watermark: Watermark | None
    options: Options


@dataclass(frozen=True)
class CreateView:
    """A CREATE VIEW statement with the tokens of its query."""

    name: str
    offset: int
    if_new: bool
    query: Sequence[Token]


@dataclass(frozen=True)
class CreateSink:
    """A CREATE SINK statement over the tokens of a query, or over a source or view by name."""

    name: str
    offset: int
    if_new: bool
    query: Sequence[Token] | str
    options: Options


@dataclass(frozen=True)
class Select:
    """A query without a name: its tokens."""

    query: Sequence[Token]


@dataclass(frozen=True)
class Set:
    """A SET statement."""

    key: str
    value: Value


Statement = CreateSource | CreateView | CreateSink | Select | Set


def statements(tokens: Sequence[Token], text: ScriptText) -> Iterator[Statement]:
    """Yield the statements of a script, in order; empty ones are skipped."""
    start = 0
    for end in (*(i for i, t in enumerate(tokens) if t.token_type == TokenType.SEMICOLON), len(tokens)):
        if end > start:
            yield _statement(Cursor(tokens[start:end], text))
        start = end + 1


def _statement(cursor: Cursor) -> Statement:
    if cursor.skip("CREATE"):
        return _create(cursor)
    if cursor.skip("SET"):
        return Set(*setting(cursor))
    if is_word(cursor.peek, "SELECT", "FROM", "WITH", "VALUES") or is_word(cursor.peek, "("):
        return Select(cursor.rest())
    raise cursor.error(f"`{cursor.tokens[0].text}` does not start a statement", _STATEMENTS)


def _create(cursor: Cursor) -> Statement:
    if cursor.skip("SOURCE") or cursor.skip("TABLE"):
        return _source(cursor)
    if cursor.skip("SINK"):
        return _sink(cursor)
    if cursor.skip("VIEW") or cursor.skip("MATERIALIZED", "VIEW"):
        return _view(cursor)
    raise cursor.error("only sources, sinks and views can be created", _STATEMENTS)


def _head(cursor: Cursor, kind: str) -> tuple[str, int, bool]:
    """Parse the name after CREATE kind; return the name, its offset, and whether IF NOT EXISTS is written."""
    if_new = cursor.skip("IF", "NOT", "EXISTS")
    offset = cursor.offset
    return cursor.name(f"the name of the {kind}"), offset, if_new


def _view(cursor: Cursor) -> CreateView:
    head = _head(cursor, "view")
    cursor.expect("AS")
    return CreateView(*head, _query(cursor, cursor.rest()))


def _sink(cursor: Cursor) -> CreateSink:
    """Parse CREATE SINK. WITH comes before AS or after the query; with FROM it comes last."""
    head = _head(cursor, "sink")
    if cursor.skip("FROM"):
        return CreateSink(*head, cursor.name("the name of a view or source"), _trailing(cursor))
    if cursor.skip("AS"):
        tokens = cursor.rest()
        start = _start_of_options(tokens)
        return CreateSink(*head, _query(cursor, tokens[:start]), _trailing(Cursor(tokens, cursor.text, start)))
    options = with_options(cursor)
    cursor.expect(
        "AS", hint="write CREATE SINK name WITH (...) AS SELECT ..., or CREATE SINK name FROM view WITH (...)"
    )
    return CreateSink(*head, _query(cursor, cursor.rest()), options)


def _start_of_options(tokens: Sequence[Token]) -> int:
    """Return the index of the last `WITH (`, or the number of tokens."""
    pairs = pairwise(tokens)
    return max((i for i, (t, u) in enumerate(pairs) if is_word(t, "WITH") and is_word(u, "(")), default=len(tokens))


def _trailing(cursor: Cursor) -> Options:
    """Parse the WITH clause that ends a statement."""
    options = with_options(cursor)
    cursor.end()
    return options


def _query(cursor: Cursor, tokens: Sequence[Token]) -> Sequence[Token]:
    if not tokens:
        raise cursor.error("a query was expected here", "write it after AS, as in AS SELECT ... FROM ...")
    return tokens


def _source(cursor: Cursor) -> CreateSource:
    head = _head(cursor, "source")
    declared = cursor.list_of(_column) if is_word(cursor.peek, "(") else []
    options = _trailing(cursor)
    fields = [d for d in declared if isinstance(d, pa.Field)]
    marks = [d for d in declared if isinstance(d, Watermark)]
    _check_once(cursor.text, head[1], [f.name for f in fields], len(marks))
    return CreateSource(*head, pa.schema(fields) if fields else None, marks[0] if marks else None, options)


def _check_once(text: ScriptText, offset: int, names: list[str], marks: int) -> None:
    """Refuse a column name that is declared twice, and more than one WATERMARK."""
    twice = next((n for i, n in enumerate(names) if n.lower() in (m.lower() for m in names[:i])), None)
    if twice is not None:
        raise text.error(
            f"column `{twice}` is declared twice", offset, hint="leave one out; the case of letters makes no difference"
        )
    if marks > 1:
        raise text.error("a source has one WATERMARK, and this one has more", offset, hint="keep one of them")


def _column(cursor: Cursor) -> AnyField | Watermark:
    """Parse one entry of a column list: a column with its type, or the WATERMARK clause."""
    if cursor.skip("WATERMARK"):
        return _watermark(cursor)
    name, offset = cursor.dotted_name("the name of a column"), cursor.offset
    tokens = cursor.until_comma(angles=True)
    constraint = next((t for t in _outside_brackets(tokens) if is_word(t, *_CONSTRAINTS)), None)
    if constraint is not None:
        hint = "leave it out; a view with WHERE can filter rows"
        raise cursor.text.error("column constraints are not supported", constraint.start, hint=hint)
    written = cursor.text.text[tokens[0].start : tokens[-1].end + 1] if tokens else ""
    with cursor.text.placing(lambda: offset):
        return pa.field(name, type_named(written))


def _outside_brackets(tokens: Sequence[Token]) -> Iterator[Token]:
    """Yield the tokens of a type outside parentheses and angle brackets, which hold the types and names of fields."""
    depth = 0
    for token in tokens:
        depth -= token.text.count(")") + token.text.count(">")
        if depth == 0:
            yield token
        depth += token.text.count("(") + token.text.count("<")


def _watermark(cursor: Cursor) -> Watermark:
    """Parse a WATERMARK clause after the word WATERMARK."""
    offset = cursor.offset
    cursor.expect("FOR", hint=HOW_WATERMARK)
    column = cursor.dotted_name("the time column")
    if cursor.skip("BY"):
        return Watermark(column, _punctuation(cursor), offset)
    cursor.expect("AS", hint=HOW_WATERMARK)
    again = cursor.dotted_name("the time column")
    if again.lower() != column.lower():
        raise cursor.text.error(f"the watermark of `{column}` is computed from `{again}`", offset, hint=HOW_WATERMARK)
    rest: Sequence[Token] = cursor.until_comma()
    if rest and (not is_word(rest[0], "-") or len(rest) == 1):
        raise cursor.text.error(
            "a watermark is the time column, or the time column minus a span", offset, hint=HOW_WATERMARK
        )
    return Watermark(column, tuple(rest[1:]), offset)


def _punctuation(cursor: Cursor) -> Punctuation:
    """Parse the clause after BY: `PUNCTUATION WHERE condition [KEEP ROWS]`."""
    cursor.expect("PUNCTUATION", "WHERE", hint=HOW_PUNCTUATED)
    tokens = tuple(cursor.until_comma())
    keep = len(tokens) > 2 and is_word(tokens[-2], "KEEP") and is_word(tokens[-1], "ROWS")
    predicate = tokens[:-2] if keep else tokens
    if not predicate:
        raise cursor.error("a condition was expected here", HOW_PUNCTUATED)
    return Punctuation(predicate, keep)
