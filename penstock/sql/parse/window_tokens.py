"""Windows in brackets, brought to calls on the tokens, before the query is parsed.

`FROM calls [RANGE 1 MINUTE SLIDE 10 SECONDS WA ts]`, the windows of the papers, becomes a call of `BRACKET` with the
arguments of HOP; an omitted time column is NULL, and the last argument says whether GAPS is written. `[ROWS 100 SLIDE
10]` becomes a call of `ROWS`. Behind a select list, as in `SELECT count(*) [RANGE 1 MINUTE] FROM calls`, they become
its last item, a call without a stream. New tokens keep the places of the old ones, so that messages still point into
the text.
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

BRACKET, ROWS = "[window]", "[rows]"  # no word of the text can be these, so no user can call them by name
_KEYWORDS = ("RANGE", "SLIDE", "WA", "ROWS", "GAPS")
_HOW = "write [RANGE 1 MINUTE SLIDE 10 SECONDS WA ts], where SLIDE and WA may be left out, or [ROWS 100 SLIDE 10]"

Parts = dict[str, list[Token]]


def plain_windows(tokens: Sequence[Token], text: ScriptText) -> list[Token]:
    """The tokens with all windows written as calls."""
    result: list[Token] = []
    cursor = Cursor(plain_tables(tokens), text)
    while (token := cursor.peek) is not None:
        if not (_opens_window(cursor) and _take_window(result, cursor)):
            result.append(token)
            cursor.at += 1
    return result


def _take_window(result: list[Token], cursor: Cursor) -> bool:
    """Put a call in the place of a stream and the window behind it, or of a window behind a select list."""
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
    following = cursor.tokens[cursor.at : cursor.at + 3]
    is_window = len(following) == 3 and is_word(following[0], "[") and is_word(following[1], *_KEYWORDS)
    return is_window and not is_word(following[2], "]")


def _stream_before(tokens: Sequence[Token]) -> tuple[int, int] | None:
    """From where to where the stream goes that a bracket stands behind: a name, a query in parentheses or a union, with
    or without an alias, in FROM."""
    if clause_of(tokens) not in ("FROM", "JOIN"):
        return None
    for end in (len(tokens), _before_alias(tokens)):
        start = _start(tokens, end)
        if start >= 1 and is_word(tokens[start - 1], *BEFORE_STREAM):
            return start, end
    return None


def _before_alias(tokens: Sequence[Token]) -> int:
    """Where a stream ends if the last token is its alias."""
    if len(tokens) < 2 or not is_stream_name(tokens[-1]):
        return 0
    return len(tokens) - (2 if is_word(tokens[-2], "AS") else 1)


def _start(tokens: Sequence[Token], end: int) -> int:
    """Where the stream starts that ends at `end`; 0 where there is none."""
    if end < 1:
        return 0
    if is_word(tokens[end - 1], ")"):
        opening = _opening(tokens, end - 1)
        return opening - 1 if opening and tokens[opening - 1].text == UNION else opening
    return end - 1 if is_stream_name(tokens[end - 1]) else 0


def _opening(tokens: Sequence[Token], closing: int) -> int:
    """The place of the parenthesis that the one at `closing` closes, or 0."""
    depth = 0
    for i in range(closing, -1, -1):
        depth += is_word(tokens[i], ")") - is_word(tokens[i], "(")
        if depth == 0:
            return i
    return 0


def _bracket(cursor: Cursor) -> Parts:
    """The tokens behind each keyword of a bracket, which are in any order, with or without commas between them."""
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
    match keyword:
        case "WA":
            return _time_name(cursor)
        case "GAPS":
            return [token_at(word, TokenType.TRUE, "TRUE")]
    return _span(cursor)


def _time_name(cursor: Cursor) -> list[Token]:
    """`ts` or `calls.ts`."""
    start = cursor.at
    cursor.name("the time column")
    if cursor.skip("."):
        cursor.name("the time column")
    return list(cursor.tokens[start : cursor.at])


def _span(cursor: Cursor) -> list[Token]:
    """A number with a unit becomes an INTERVAL; without one it stays a number, for a BIGINT time or for rows."""
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
    """`BRACKET(stream, time or NULL, slide, size, gaps)` or `ROWS(stream, slide, size)`."""
    if "ROWS" in parts:
        return call(at, ROWS, [*stream, parts.get("SLIDE", parts["ROWS"]), parts["ROWS"]])
    time = parts.get("WA", [token_at(at, TokenType.NULL, "NULL")])
    gaps = parts.get("GAPS", [token_at(at, TokenType.FALSE, "FALSE")])
    return call(at, BRACKET, [*stream, time, parts.get("SLIDE", parts["RANGE"]), parts["RANGE"], gaps])
