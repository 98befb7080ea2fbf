"""`WATERMARK FOR ts AS ts - INTERVAL '2' SECOND`: which column tells a stream's time, and how far rows may be late."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
from sqlglot.tokens import Token, TokenType

from penstock.errors import QueryError
from penstock.progress.rules import Ordered, Rule, Slack
from penstock.schema import is_time_type, require_column, sql_type
from penstock.sql.cursor import Cursor, is_word
from penstock.sql.interval import interval, microseconds
from penstock.sql.place import ScriptText

HOW = (
    "write WATERMARK FOR ts AS ts - INTERVAL '2' SECOND among the columns, with the greatest lateness of a row; "
    "or WATERMARK FOR ts AS ts if rows come in order"
)


@dataclass(frozen=True)
class Watermark:
    """What the clause says, before the type of the column is known. `slack` is empty where rows come in order."""

    column: str
    slack: tuple[Token, ...]
    offset: int


def watermark(cursor: Cursor) -> Watermark:
    """The clause behind the word WATERMARK."""
    offset = cursor.offset
    cursor.expect("FOR", hint=HOW)
    column = cursor.name("the time column")
    cursor.expect("AS", hint=HOW)
    again = cursor.name("the time column")
    if again.lower() != column.lower():
        raise cursor.text.error(f"the watermark of `{column}` is computed from `{again}`", offset, hint=HOW)
    rest: Sequence[Token] = cursor.until_comma()
    if rest and (not is_word(rest[0], "-") or len(rest) == 1):
        raise cursor.text.error("a watermark is the time column, or the time column minus a span", offset, hint=HOW)
    return Watermark(column, tuple(rest[1:]), offset)


def time_and_rule(mark: Watermark, schema: pa.Schema, text: ScriptText, source: str) -> tuple[str, Rule]:
    """The time column as the schema spells it, and the rule by which its rows become punctuation."""
    spelled = next((n for n in schema.names if n.lower() == mark.column.lower()), mark.column)
    with text.placing(lambda: mark.offset):
        type_ = require_column(schema, spelled, f"source `{source}`").type
        return spelled, _rule(mark.slack, type_, spelled)


def _rule(slack: Sequence[Token], type_: pa.DataType, column: str) -> Rule:
    if not is_time_type(type_):
        raise QueryError(
            f"column `{column}` of type {sql_type(type_)} cannot tell the time",
            hint="a time column is a TIMESTAMP or a BIGINT",
        )
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
