"""`WATERMARK FOR ts AS ts - INTERVAL '2' SECOND`: which column tells a stream's time, and how far rows may be late.

`WATERMARK FOR ts BY PUNCTUATION WHERE kind = 'mark'`: rows for which this holds tell how far the stream has come; they
are no rows of the stream, unless KEEP ROWS follows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
from sqlglot.tokens import Token, TokenType

from penstock.errors import QueryError
from penstock.expr.evaluate.scalar import check_predicate
from penstock.progress.rules import Ordered, Punctuated, Rule, Slack
from penstock.sql.cursor import Cursor, is_word
from penstock.sql.expression import translate
from penstock.sql.interval import interval, microseconds
from penstock.sql.lone_items import item_tree
from penstock.sql.place import ScriptText
from penstock.sql.scope import stream_scope
from penstock.types import is_time_type, require_column, sql_type

HOW = (
    "write WATERMARK FOR ts AS ts - INTERVAL '2' SECOND among the columns, with the greatest lateness of a row; "
    "or WATERMARK FOR ts AS ts if rows come in order"
)
_HOW_PUNCTUATED = "write WATERMARK FOR ts BY PUNCTUATION WHERE kind = 'mark', and KEEP ROWS behind it if they are data"


@dataclass(frozen=True)
class Punctuation:
    """Rows that tell the progress, before the columns are known. Invariant: there is at least one token."""

    predicate: tuple[Token, ...]
    keep: bool


@dataclass(frozen=True)
class Watermark:
    """What the clause says, before the type of the column is known. `told` is the slack, which is empty where rows come
    in order, or by which rows it is told."""

    column: str
    told: tuple[Token, ...] | Punctuation
    offset: int


def watermark(cursor: Cursor) -> Watermark:
    """The clause behind the word WATERMARK."""
    offset = cursor.offset
    cursor.expect("FOR", hint=HOW)
    column = cursor.dotted_name("the time column")
    if cursor.skip("BY"):
        return Watermark(column, _punctuation(cursor), offset)
    cursor.expect("AS", hint=HOW)
    again = cursor.dotted_name("the time column")
    if again.lower() != column.lower():
        raise cursor.text.error(f"the watermark of `{column}` is computed from `{again}`", offset, hint=HOW)
    rest: Sequence[Token] = cursor.until_comma()
    if rest and (not is_word(rest[0], "-") or len(rest) == 1):
        raise cursor.text.error("a watermark is the time column, or the time column minus a span", offset, hint=HOW)
    return Watermark(column, tuple(rest[1:]), offset)


def _punctuation(cursor: Cursor) -> Punctuation:
    cursor.expect("PUNCTUATION", "WHERE", hint=_HOW_PUNCTUATED)
    tokens = tuple(cursor.until_comma())
    keep = len(tokens) > 2 and is_word(tokens[-2], "KEEP") and is_word(tokens[-1], "ROWS")
    predicate = tokens[:-2] if keep else tokens
    if not predicate:
        raise cursor.error("a condition was expected here", _HOW_PUNCTUATED)
    return Punctuation(predicate, keep)


def time_and_rule(mark: Watermark, schema: pa.Schema, text: ScriptText, source: str) -> tuple[str, Rule]:
    """The time column as the schema spells it, and the rule by which its rows become punctuation."""
    spelled = next((n for n in schema.names if n.lower() == mark.column.lower()), mark.column)
    with text.placing(lambda: mark.offset):
        type_ = require_column(schema, spelled, f"source `{source}`").type
        if not is_time_type(type_):
            raise QueryError(
                f"column `{spelled}` of type {sql_type(type_)} cannot tell the time",
                hint="a time column is a TIMESTAMP or a BIGINT",
            )
        match mark.told:
            case Punctuation():
                return spelled, _punctuated(mark.told, schema, text, source)
            case slack:
                return spelled, _slack(slack, type_, spelled)


def _punctuated(told: Punctuation, schema: pa.Schema, text: ScriptText, source: str) -> Punctuated:
    """The condition is parsed as that of a query is: as the only item of a SELECT, and then it stands alone."""
    first = told.predicate[0]
    error = text.error("syntax error: one condition was expected here", first.start, hint=_HOW_PUNCTUATED)
    tree = item_tree(told.predicate, text, error)
    with text.placing(lambda: first.start):
        predicate = translate(tree, stream_scope(text, source, schema.names))
        check_predicate(schema, predicate)
    return Punctuated(predicate, told.keep)


def _slack(slack: Sequence[Token], type_: pa.DataType, column: str) -> Rule:
    if not slack:
        return Ordered()
    return Slack(_timestamp_slack(slack) if pa.types.is_timestamp(type_) else _number_slack(slack, column))


def _timestamp_slack(slack: Sequence[Token]) -> int:
    if not is_word(slack[0], "INTERVAL") or len(slack) < 2:
        raise QueryError("the slack of a TIMESTAMP is an INTERVAL", hint=HOW)
    span = microseconds(interval(" ".join(token.text for token in slack[1:])))
    if span < 0:
        raise QueryError("the slack of a watermark is below zero", hint=HOW)
    return span


def _number_slack(slack: Sequence[Token], column: str) -> int:
    digits = slack[0].text
    if len(slack) != 1 or slack[0].token_type != TokenType.NUMBER or not digits.isdigit() or len(digits) > 18:
        raise QueryError(
            f"the slack of the BIGINT column `{column}` is a whole number",
            hint=f"write WATERMARK FOR {column} AS {column} - 5",
        )
    return int(digits)
