"""Rewrite bracket windows into calls, on the tokens, before the query is parsed.

`FROM calls [RANGE 1 MINUTE SLIDE 10 SECONDS WA ts]` becomes a call of `BRACKET` with the arguments of HOP; a missing
time column is NULL, and the last argument says whether GAPS is written. `[ROWS 100 SLIDE 10]` becomes a call of `ROWS`.
After a select list, as in `SELECT count(*) [RANGE 1 MINUTE] FROM calls`, the window becomes the last item: a call
without a stream. New tokens keep the offsets of the old ones, so that messages point into the text.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot.tokens import Token, TokenType

from penstock.sql.parse.cursor import Cursor, is_name, is_word
from penstock.sql.parse.literals import is_unit
from penstock.sql.parse.place import ScriptText
from penstock.sql.parse.table_tokens import (
    BEFORE_STREAM,
    UNION,
    call,
    clause_of,
    is_stream_name,
    plain_tables,
    token_at,
)

BRACKET, ROWS = "[window]", "[rows]"  # not words of SQL, so no user can call them
_KEYWORDS = ("RANGE", "SLIDE", "WA", "ROWS", "GAPS")
_HOW = "write [RANGE 1 MINUTE SLIDE 10 SECONDS WA ts], where SLIDE and WA may be left out, or [ROWS 100 SLIDE 10]"

Parts = dict[str, list[Token]]


def plain_windows(tokens: Sequence[Token], text: ScriptText) -> list[Token]:
    """Return the tokens with every bracket window written as a call."""
    result: list[Token] = []
    cursor = Cursor(plain_tables(tokens), text)
    while (token := cursor.peek) is not None:
        if not (_opens_window(cursor) and _take_window(result, cursor)):
            result.append(token)
            cursor.at += 1
    return result


def _take_window(result: list[Token], cursor: Cursor) -> bool:
    """Replace a stream and its window, or a window after a select list, by a call; return whether a window was
    there."""
    token = cursor.tokens[cursor.at]
    if (found := _stream_before(result)) is not None:
        start, end = found
        result[start:end] = _call(token, [result[start:end]], _bracket(cursor))
        return True
    if clause_of(result) != "SELECT":
        return False
    result.append(token_at(token, TokenType.COMMA, ","))
    result.extend(_call(token, [], _bracket(cursor)))
    return True


def _opens_window(cursor: Cursor) -> bool:
    """Return whether a bracket window begins here, rather than an array or an index such as `a[rows]`."""
    following = cursor.tokens[cursor.at : cursor.at + 3]
    is_window = len(following) == 3 and is_word(following[0], "[") and is_word(following[1], *_KEYWORDS)
    return is_window and not is_word(following[2], "]")


def _stream_before(tokens: Sequence[Token]) -> tuple[int, int] | None:
    """Return start and end of the stream in FROM that the tokens end with, without its alias; None if there is none.

    A stream is a name, a query in parentheses or a union.
    """
    if clause_of(tokens) not in ("FROM", "JOIN"):
        return None
    for end in (len(tokens), _before_alias(tokens)):
        start = _start(tokens, end)
        if start >= 1 and is_word(tokens[start - 1], *BEFORE_STREAM):
            return start, end
    return None


def _before_alias(tokens: Sequence[Token]) -> int:
    """Return the index where a stream ends if the last token is its alias; 0 if it cannot be an alias."""
    if len(tokens) < 2 or not is_stream_name(tokens[-1]):
        return 0
    return len(tokens) - (2 if is_word(tokens[-2], "AS") else 1)


def _start(tokens: Sequence[Token], end: int) -> int:
    """Return the index where the stream that ends at `end` starts; 0 if there is none."""
    if end < 1:
        return 0
    if is_word(tokens[end - 1], ")"):
        opening = _opening(tokens, end - 1)
        return opening - 1 if opening and tokens[opening - 1].text == UNION else opening
    return end - 1 if is_stream_name(tokens[end - 1]) else 0


def _opening(tokens: Sequence[Token], closing: int) -> int:
    """Return the index of the parenthesis that the one at `closing` closes, or 0."""
    depth = 0
    for i in range(closing, -1, -1):
        depth += is_word(tokens[i], ")") - is_word(tokens[i], "(")
        if depth == 0:
            return i
    return 0


def _bracket(cursor: Cursor) -> Parts:
    """Parse a bracket; return the tokens after each keyword. Keywords come in any order, commas are optional."""
    cursor.expect("[")
    parts: Parts = {}
    while not cursor.skip("]"):
        offset, word = cursor.offset, cursor.take()
        keyword = word.text.upper()
        if keyword not in _KEYWORDS or keyword in parts:
            raise cursor.text.error(f"`{word.text}` is not expected in a window", offset, hint=_HOW)
        parts[keyword] = _part(keyword, word, cursor)
        cursor.skip(",")
    if ("RANGE" in parts) == ("ROWS" in parts):
        what = "the window has no RANGE" if "RANGE" not in parts else "the window has both RANGE and ROWS"
        raise cursor.text.error(what, cursor.offset, hint=_HOW)
    if "ROWS" in parts and ("WA" in parts or "GAPS" in parts):
        raise cursor.text.error("a window of rows has no time", cursor.offset, hint=_HOW)
    return parts


def _part(keyword: str, word: Token, cursor: Cursor) -> list[Token]:
    """Parse the tokens that belong to one keyword."""
    match keyword:
        case "WA":
            return _time_name(cursor)
        case "GAPS":
            return [token_at(word, TokenType.TRUE, "TRUE")]
    return _span(cursor)


def _time_name(cursor: Cursor) -> list[Token]:
    """Parse `ts` or `calls.ts`."""
    start = cursor.at
    cursor.name("the time column")
    if cursor.skip("."):
        cursor.name("the time column")
    return list(cursor.tokens[start : cursor.at])


def _span(cursor: Cursor) -> list[Token]:
    """Parse a length: a number with a unit becomes an INTERVAL, without one it stays a number (BIGINT time, or
    rows)."""
    cursor.skip("INTERVAL")
    amount = cursor.take()
    if amount.token_type not in (TokenType.NUMBER, TokenType.STRING):
        raise cursor.text.error("a window needs a number here", amount.start, hint=_HOW)
    following = cursor.peek
    if following is None or not (is_name(following) and is_unit(following.text)):
        return [amount]
    unit = cursor.take()
    return [token_at(amount, TokenType.INTERVAL, "INTERVAL"), token_at(amount, TokenType.STRING, amount.text), unit]


def _call(at: Token, stream: list[list[Token]], parts: Parts) -> list[Token]:
    """Return `BRACKET(stream, time or NULL, slide, size, gaps)` or `ROWS(stream, slide, size)` as tokens."""
    if "ROWS" in parts:
        return call(at, ROWS, [*stream, parts.get("SLIDE", parts["ROWS"]), parts["ROWS"]])
    time = parts.get("WA", [token_at(at, TokenType.NULL, "NULL")])
    gaps = parts.get("GAPS", [token_at(at, TokenType.FALSE, "FALSE")])
    return call(at, BRACKET, [*stream, time, parts.get("SLIDE", parts["RANGE"]), parts["RANGE"], gaps])
