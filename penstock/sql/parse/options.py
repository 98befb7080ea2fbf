"""Parse `WITH (key = value, ...)` and `SET key = value`."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from sqlglot.tokens import Token, TokenType

from penstock.errors import ConfigError, QueryError
from penstock.settings import yes_or_no
from penstock.sql.parse.cursor import Cursor, is_name

Value = str | int | float | bool


@dataclass(frozen=True)
class Options:
    """The options of a WITH clause, as text. `places` are the offsets of the keys in the script."""

    values: Mapping[str, str]
    places: Mapping[str, int]

    def without(self, names: Collection[str]) -> Options:
        """Return the options except those with the given names."""
        return Options({name: value for name, value in self.values.items() if name not in names}, self.places)


def with_options(cursor: Cursor) -> Options:
    """Parse a WITH clause; each key may occur once."""
    cursor.expect("WITH", hint="name the connector, as in WITH (connector = 'files', path = 'calls/*.parquet')")
    values: dict[str, str] = {}
    places: dict[str, int] = {}
    for offset, key, value in cursor.list_of(_option):
        if key in values:
            raise cursor.text.error(f"option `{key}` is given twice", offset, hint="leave one of them out")
        values[key] = str(value).lower() if isinstance(value, bool) else str(value)
        places[key] = offset
    return Options(values, places)


def flag(name: str, told: str) -> bool:
    """Return the value of an option that is true or false."""
    try:
        return yes_or_no(told)
    except ConfigError as error:
        raise QueryError(f"`{name}` cannot be `{told}`", detail=error.what, hint=error.hint) from error


def setting(cursor: Cursor) -> tuple[str, Value]:
    """Parse a SET statement after the word SET; return its key and value."""
    key = _key(cursor)
    if not cursor.skip("TO"):
        cursor.expect("=")
    value = _number_or_text(cursor)
    cursor.end()
    return key, value


def _option(cursor: Cursor) -> tuple[int, str, str | bool]:
    offset, key = cursor.offset, _key(cursor)
    cursor.expect("=")
    return offset, key, _value(cursor)


def _key(cursor: Cursor) -> str:
    """Parse a key such as `path`, `kafka.group.id` or `'path'`; unquoted keys become lower case."""
    token = cursor.peek
    if token is not None and token.token_type == TokenType.STRING:
        return str(cursor.take().text)
    parts = [_word(cursor)]
    while cursor.skip("."):
        parts.append(_word(cursor))
    return ".".join(parts)


def _word(cursor: Cursor) -> str:
    quoted = cursor.peek is not None and cursor.peek.token_type == TokenType.IDENTIFIER
    word = cursor.name("the name of an option")
    return word if quoted else word.lower()


def _value(cursor: Cursor) -> str | bool:
    """Parse a string, a boolean, or a number, which stays as it is written."""
    sign = "-" if cursor.skip("-") else ""
    token = cursor.take()
    match token.token_type:
        case TokenType.NUMBER:
            return sign + str(token.text)
        case TokenType.TRUE | TokenType.FALSE if not sign:
            return bool(token.token_type == TokenType.TRUE)
        case TokenType.STRING if not sign:
            return str(token.text)
    raise _not_a_value(cursor, token)


def _number_or_text(cursor: Cursor) -> Value:
    """Parse the value of SET: numbers become int or float, a bare word is a string."""
    token = cursor.peek
    if token is not None and is_name(token) and token.token_type not in (TokenType.TRUE, TokenType.FALSE):
        return str(cursor.take().text)
    value = _value(cursor)
    if isinstance(value, bool) or (token is not None and token.token_type == TokenType.STRING):
        return value
    return int(value) if value.lstrip("-").isdigit() and len(value) < 20 else float(value)


def _not_a_value(cursor: Cursor, token: Token) -> Exception:
    """Return the error at `token`, which is the token just taken."""
    cursor.at -= 1
    return cursor.error(f"`{token.text}` is not a value", "a value is a string in '...', a number, true or false")
