"""The other ways to write a window, brought to one form on the tokens, before the query is parsed.

`FROM calls [RANGE 1 MINUTE SLIDE 10 SECONDS WA ts]`, the windows of the papers, becomes a call of `BRACKET` with the
arguments of HOP; an omitted time column is NULL. `FROM TABLE(HOP(TABLE calls, DESCRIPTOR(ts), ...))`, the form of
Flink, loses the words TABLE. New tokens keep the places of the old ones, so that messages still point into the text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlglot.tokens import Token, TokenType

from penstock.sql.cursor import Cursor, is_name, is_word
from penstock.sql.interval import is_unit
from penstock.sql.place import ScriptText

BRACKET = "[window]"  # no word of the text can be this, so no user can call it by name
_KEYWORDS = ("RANGE", "SLIDE", "WA", "ROWS")
_BEFORE_STREAM = ("FROM", "JOIN")
_HOW = "write [RANGE 1 MINUTE SLIDE 10 SECONDS WA ts]; SLIDE and WA may be left out"


def plain_windows(tokens: Sequence[Token], text: ScriptText) -> list[Token]:
    """The tokens with all windows written as calls."""
    return _brackets_to_calls(list(_without_table_words(tokens)), text)


def _without_table_words(tokens: Sequence[Token]) -> Iterator[Token]:
    dropped = set(_dropped(tokens))
    return (token for i, token in enumerate(tokens) if i not in dropped)


def _dropped(tokens: Sequence[Token]) -> Iterator[int]:
    """The places of `TABLE` before a name in a list of arguments, and of `TABLE ( ... )` around a call in FROM."""
    for i in range(1, len(tokens) - 2):
        if not is_word(tokens[i], "TABLE"):
            continue
        if is_word(tokens[i + 1], "(") and is_word(tokens[i - 1], *_BEFORE_STREAM) and is_name(tokens[i + 2]):
            yield from (i, i + 1, _closing(tokens, i + 1))
        elif is_name(tokens[i + 1]) and is_word(tokens[i - 1], "(", "=>"):
            yield i


def _closing(tokens: Sequence[Token], opening: int) -> int:
    """The place of the parenthesis that closes the one at `opening`; past the end where there is none."""
    depth = 0
    for i in range(opening, len(tokens)):
        depth += is_word(tokens[i], "(") - is_word(tokens[i], ")")
        if depth == 0:
            return i
    return len(tokens)


def _brackets_to_calls(tokens: list[Token], text: ScriptText) -> list[Token]:
    result: list[Token] = []
    cursor = Cursor(tokens, text)
    while (token := cursor.peek) is not None:
        start = _stream_before(result) if _opens_window(cursor) else None
        if start is None:
            result.append(token)
            cursor.at += 1
        else:
            result[start:] = _call(token, result[start:], _bracket(cursor))
    return result


def _opens_window(cursor: Cursor) -> bool:
    following = cursor.tokens[cursor.at : cursor.at + 2]
    return len(following) == 2 and is_word(following[0], "[") and is_word(following[1], *_KEYWORDS)


def _stream_before(tokens: Sequence[Token]) -> int | None:
    """Where the stream starts that ends here: a name, or a query in parentheses, behind FROM or JOIN."""
    start = _opening(tokens) if tokens and is_word(tokens[-1], ")") else len(tokens) - 1
    is_stream = (
        start >= 1
        and is_word(tokens[start - 1], *_BEFORE_STREAM)
        and (is_word(tokens[start], "(") or is_name(tokens[start]))
    )
    return start if is_stream else None


def _opening(tokens: Sequence[Token]) -> int:
    """The place of the parenthesis that the last token closes, or 0."""
    depth = 0
    for i in range(len(tokens) - 1, -1, -1):
        depth += is_word(tokens[i], ")") - is_word(tokens[i], "(")
        if depth == 0:
            return i
    return 0


def _bracket(cursor: Cursor) -> dict[str, list[Token]]:
    """The tokens behind each keyword of a bracket, which are in any order, with or without commas between them."""
    cursor.expect("[")
    parts: dict[str, list[Token]] = {}
    while not cursor.skip("]"):
        offset, word = cursor.offset, cursor.take()
        keyword = word.text.upper()
        if keyword == "ROWS":
            raise cursor.text.error("windows over a number of rows are not supported yet", offset, hint=_HOW)
        if keyword not in _KEYWORDS or keyword in parts:
            raise cursor.text.error(f"`{word.text}` is not expected in a window", offset, hint=_HOW)
        parts[keyword] = _time_name(cursor) if keyword == "WA" else _span(cursor)
        cursor.skip(",")
    if "RANGE" not in parts:
        raise cursor.text.error("the window has no RANGE", cursor.offset, hint=_HOW)
    return parts


def _time_name(cursor: Cursor) -> list[Token]:
    cursor.name("the time column")
    return [cursor.tokens[cursor.at - 1]]


def _span(cursor: Cursor) -> list[Token]:
    """A number with a unit becomes an INTERVAL; without one it stays a number, for a BIGINT time."""
    cursor.skip("INTERVAL")
    amount = cursor.take()
    if amount.token_type not in (TokenType.NUMBER, TokenType.STRING):
        raise cursor.text.error("a window needs a number here", amount.start, hint=_HOW)
    following = cursor.peek
    if following is None or not (is_name(following) and is_unit(following.text)):
        return [amount]
    unit = cursor.take()
    return [_token(TokenType.INTERVAL, "INTERVAL", amount), _token(TokenType.STRING, amount.text, amount), unit]


def _call(at: Token, stream: list[Token], parts: dict[str, list[Token]]) -> list[Token]:
    """`BRACKET(stream, time or NULL, slide, size)`."""
    comma = _token(TokenType.COMMA, ",", at)
    time = parts.get("WA", [_token(TokenType.NULL, "NULL", at)])
    arguments = [*stream, comma, *time, comma, *parts.get("SLIDE", parts["RANGE"]), comma, *parts["RANGE"]]
    opening, closing = _token(TokenType.L_PAREN, "(", at), _token(TokenType.R_PAREN, ")", at)
    return [_token(TokenType.VAR, BRACKET, at), opening, *arguments, closing]


def _token(kind: TokenType, text: str, at: Token) -> Token:
    return Token(kind, text, line=at.line, col=at.col, start=at.start, end=at.end)
