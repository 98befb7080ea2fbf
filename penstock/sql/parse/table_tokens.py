"""Rewrite forms of FROM that sqlglot does not know into calls, on the tokens, before the query is parsed.

Flink's `TABLE(HOP(TABLE calls, DESCRIPTOR(ts), ...))` loses the words TABLE; `calls PARTITION BY k` as an argument
becomes two arguments. `FROM a UNION b` becomes a call of `UNION`. New tokens keep the offsets of the old ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlglot.tokens import Token, TokenType

from penstock.sql.parse.cursor import is_name, is_word

PARTITION, UNION = "[partition]", "[union]"  # not words of SQL, so no user can call them
BEFORE_STREAM = ("FROM", "JOIN", ",")
_NO_STREAM = ("SELECT", "FROM", "VALUES", "WITH", "TABLE", "ALL", "DISTINCT", "BY")
_CLAUSES = ("SELECT", "FROM", "JOIN", "WHERE", "GROUP BY", "HAVING", "QUALIFY", "ORDER BY", "WITH")


def plain_tables(tokens: Sequence[Token]) -> list[Token]:
    """Return the tokens with every stream of FROM written as a name, a query or a call."""
    dropped = set(_table_words(tokens))
    return _unions(_partitions([_plain_word(token) for i, token in enumerate(tokens) if i not in dropped]))


def _plain_word(token: Token) -> Token:
    """Return SESSION as a plain word: sqlglot's keyword cannot be called."""
    return token_at(token, TokenType.VAR, token.text) if token.token_type == TokenType.SESSION else token


def _table_words(tokens: Sequence[Token]) -> Iterator[int]:
    """Yield the indexes of TABLE before a name in an argument list, and of `TABLE (` and `)` around a call in FROM."""
    for i in range(1, len(tokens) - 2):
        if not is_word(tokens[i], "TABLE"):
            continue
        if is_word(tokens[i + 1], "(") and is_word(tokens[i - 1], *BEFORE_STREAM) and is_name(tokens[i + 2]):
            yield from (i, i + 1, closing(tokens, i + 1))
        elif is_name(tokens[i + 1]) and is_word(tokens[i - 1], "(", "=>"):
            yield i


def _partitions(tokens: Sequence[Token]) -> list[Token]:
    """Rewrite `SESSION(calls PARTITION BY k, ...)` to `SESSION(calls, PARTITION(k), ...)`; several keys are in
    parentheses."""
    result: list[Token] = []
    cursor = 0
    while cursor < len(tokens):
        token = tokens[cursor]
        if token.token_type == TokenType.PARTITION_BY and _is_argument(tokens, cursor):
            end = _end_of_argument(tokens, cursor + 1)
            result.append(token_at(token, TokenType.COMMA, ","))
            result.extend(call(token, PARTITION, [_inside(tokens[cursor + 1 : end])]))
            cursor = end
        else:
            result.append(token)
            cursor += 1
    return result


def _is_argument(tokens: Sequence[Token], at: int) -> bool:
    """Return whether PARTITION BY follows a name that is the first argument of a call."""
    return at >= 2 and is_name(tokens[at - 1]) and is_word(tokens[at - 2], "(", "=>")


def _end_of_argument(tokens: Sequence[Token], start: int) -> int:
    """Return the index after the key, or after the parentheses around several keys."""
    if start < len(tokens) and is_word(tokens[start], "("):
        return min(closing(tokens, start) + 1, len(tokens))
    return min(start + 1, len(tokens))


def _inside(tokens: Sequence[Token]) -> Sequence[Token]:
    """Return the tokens without enclosing parentheses."""
    return tokens[1:-1] if tokens and is_word(tokens[0], "(") else tokens


def _unions(tokens: list[Token]) -> list[Token]:
    """Rewrite `a UNION b UNION ALL c` in FROM to `UNION(a, b, c)`."""
    result: list[Token] = []
    i = 0
    while i < len(tokens):
        names, after = _union_at(tokens, i)
        if len(names) > 1 and _begins_stream(result):
            result.extend(call(tokens[i], UNION, [[name] for name in names]))
            i = after
        else:
            result.append(tokens[i])
            i += 1
    return result


def _union_at(tokens: Sequence[Token], at: int) -> tuple[list[Token], int]:
    """Return the names of the union that begins at index `at`, and the index after it."""
    names = [tokens[at]] if is_stream_name(tokens[at]) else []
    after = at + 1
    while names and after < len(tokens) and tokens[after].token_type == TokenType.UNION:
        following = after + (2 if after + 1 < len(tokens) and is_word(tokens[after + 1], "ALL") else 1)
        if following >= len(tokens) or not is_stream_name(tokens[following]):
            break
        names.append(tokens[following])
        after = following + 1
    return names, after


def is_stream_name(token: Token) -> bool:
    """Return whether the token can name a stream of FROM."""
    return is_name(token) and not is_word(token, *_NO_STREAM)


def _begins_stream(before: Sequence[Token]) -> bool:
    """Return whether a stream of FROM can begin after these tokens."""
    outside = list(before)
    while outside and is_word(outside[-1], "("):
        outside.pop()
    return bool(outside) and is_word(outside[-1], *BEFORE_STREAM) and clause_of(outside) in ("FROM", "JOIN")


def clause_of(tokens: Sequence[Token]) -> str:
    """Return the first word of the clause in which the tokens end, at the current depth of parentheses; or ""."""
    depth = 0
    for token in reversed(tokens):
        depth += is_word(token, ")") - is_word(token, "(")
        if depth < 0:
            return ""
        if depth == 0 and is_word(token, *_CLAUSES):
            return str(token.text).upper()
    return ""


def closing(tokens: Sequence[Token], opening: int) -> int:
    """Return the index of the parenthesis that closes the one at `opening`, or the number of tokens."""
    depth = 0
    for i in range(opening, len(tokens)):
        depth += is_word(tokens[i], "(") - is_word(tokens[i], ")")
        if depth == 0:
            return i
    return len(tokens)


def call(at: Token, name: str, arguments: Sequence[Sequence[Token]]) -> list[Token]:
    """Return the tokens of a call of `name`; new tokens have the offset of `at`."""
    comma = token_at(at, TokenType.COMMA, ",")
    inside = [token for i, argument in enumerate(arguments) for token in ([comma] if i else []) + list(argument)]
    opening, end = token_at(at, TokenType.L_PAREN, "("), token_at(at, TokenType.R_PAREN, ")")
    return [token_at(at, TokenType.VAR, name), opening, *inside, end]


def token_at(at: Token, kind: TokenType, text: str) -> Token:
    """Return a new token with the offset of `at`."""
    return Token(kind, text, line=at.line, col=at.col, start=at.start, end=at.end)
