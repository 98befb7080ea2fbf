"""SQL names of column types: `BIGINT`, `DECIMAL(18, 3)`, `STRUCT(id BIGINT, tags VARCHAR[])`.

Nested types are parsed in the forms of DuckDB, Spark and Flink (`STRUCT<id: BIGINT>`, `ROW(id BIGINT)`,
`ARRAY<VARCHAR>`, `VARCHAR[]`, `MAP<VARCHAR, BIGINT>`), and written in that of DuckDB, which evaluates them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeVar

import pyarrow as pa

from penstock.arrow import AnyField
from penstock.errors import QueryError, did_you_mean
from penstock.expr.text import quoted

TIMESTAMP = pa.timestamp("us")

SQL_TYPES: dict[str, pa.DataType] = {
    "BOOLEAN": pa.bool_(),
    "TINYINT": pa.int8(),
    "SMALLINT": pa.int16(),
    "INTEGER": pa.int32(),
    "BIGINT": pa.int64(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "VARCHAR": pa.string(),
    "BLOB": pa.binary(),
    "DATE": pa.date32(),
    "TIMESTAMP": TIMESTAMP,
}
_ALIASES = {
    "BOOL": "BOOLEAN", "INT": "INTEGER", "INT4": "INTEGER", "INT8": "BIGINT", "LONG": "BIGINT", "SHORT": "SMALLINT",
    "REAL": "FLOAT", "FLOAT4": "FLOAT", "FLOAT8": "DOUBLE", "DOUBLE PRECISION": "DOUBLE", "TEXT": "VARCHAR",
    "STRING": "VARCHAR", "CHAR": "VARCHAR", "BYTEA": "BLOB", "BINARY": "BLOB", "VARBINARY": "BLOB",
    "DATETIME": "TIMESTAMP",
}  # fmt: skip
_NESTED = ("STRUCT(name TYPE, ...)", "ARRAY(TYPE)", "MAP(TYPE, TYPE)")
_STRUCTS, _LISTS = ("STRUCT", "ROW"), ("ARRAY", "LIST")
_TOKEN = re.compile(r'\s*(?:("(?:[^"]|"")*"|`[^`]*`)|([^\W\d]\w*)|(\d+)|(.))', re.DOTALL)
_BRACKETS = {"<": ">", "(": ")"}
_DEEPEST = 50
T = TypeVar("T")


def arrow_type(sql_type: str) -> pa.DataType:
    """Return the Arrow type of a SQL type name; lengths as in VARCHAR(20) are accepted and ignored."""
    return _TypeReader(sql_type).whole()


def sql_type(arrow: pa.DataType) -> str:
    """Return the SQL name of a type of a normalised schema."""
    if pa.types.is_decimal(arrow):
        return f"DECIMAL({arrow.precision}, {arrow.scale})"
    if pa.types.is_struct(arrow):
        return f"STRUCT({', '.join(f'{quoted(field.name)} {sql_type(field.type)}' for field in arrow)})"
    if pa.types.is_list(arrow):
        return f"{sql_type(arrow.value_type)}[]"
    if pa.types.is_map(arrow):
        return f"MAP({sql_type(arrow.key_type)}, {sql_type(arrow.item_type)})"
    for name, known in SQL_TYPES.items():
        if known.equals(arrow):
            return name
    return str(arrow).upper()


def is_nested(arrow: pa.DataType) -> bool:
    """Return whether values of the type contain other values."""
    return bool(pa.types.is_nested(arrow))


class _TypeReader:
    """A recursive descent parser of type names."""

    def __init__(self, text: str) -> None:
        self._text, self._at, self._depth = text, 0, 0
        # Each token is its text and whether it was quoted. Names keep their case; keywords are not case-sensitive.
        self._tokens = [(m[1] or m[2] or m[3] or m[4], m[1] is not None) for m in _TOKEN.finditer(text.strip())]

    def whole(self) -> pa.DataType:
        """Parse the whole text as one type."""
        found = self._type()
        if self._at < len(self._tokens):
            raise self._unknown()
        return found

    def _type(self) -> pa.DataType:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise QueryError("a type is nested too deeply", hint="declare the column VARCHAR to get it as JSON text")
        found = self._named()
        while self._peek() == "[":
            self._take("[")
            self._take("]")
            found = pa.list_(found)
        self._depth -= 1
        return found

    def _named(self) -> pa.DataType:
        word = self._word()
        if word in _STRUCTS and self._peek() in _BRACKETS:
            return self._struct()
        if word in _LISTS and self._peek() in _BRACKETS:
            return pa.list_(self._in_brackets(self._type)[0])
        if word == "MAP" and self._peek() in _BRACKETS:
            return self._map()
        if word in ("DECIMAL", "NUMERIC"):
            return self._decimal()
        while self._next_is_word():
            word += f" {self._word()}"
        if self._peek() == "(":
            self._in_brackets(self._number)
        name = _ALIASES.get(word, word)
        if name not in SQL_TYPES:
            raise self._unknown(name)
        return SQL_TYPES[name]

    def _struct(self) -> pa.DataType:
        fields = self._in_brackets(self._field)
        folded = [field.name.lower() for field in fields]
        for i, name in enumerate(folded):
            if name in folded[:i]:
                raise QueryError(
                    f"`{self._text}` has two fields `{fields[i].name}`",
                    detail="field names are not case-sensitive",
                    hint="give each field a different name",
                )
        return pa.struct(fields)

    def _field(self) -> AnyField:
        if self._at >= len(self._tokens):
            raise self._unknown()
        text, quoted = self._tokens[self._at]
        self._at += 1
        name = text[1:-1].replace('""', '"') if quoted else text
        if not name or not (quoted or _TOKEN.fullmatch(text)[2]):  # type: ignore[index]
            raise self._unknown()
        if self._peek() == ":":
            self._take(":")
        return pa.field(name, self._type())

    def _map(self) -> pa.DataType:
        parts = self._in_brackets(self._type)
        if len(parts) != 2:
            raise QueryError(f"`{self._text}`: a MAP has a type of keys and a type of values", hint=_NESTED[2])
        if is_nested(parts[0]):
            raise QueryError(f"`{self._text}`: keys of a MAP cannot be nested", hint="use VARCHAR or BIGINT keys")
        return pa.map_(*parts)

    def _decimal(self) -> pa.DataType:
        numbers = self._in_brackets(self._number) if self._peek() == "(" else [18, 3]
        if len(numbers) > 2:
            raise self._unknown()
        return pa.decimal128(*(numbers if len(numbers) == 2 else [numbers[0], 0]))

    def _in_brackets(self, read: Callable[[], T]) -> list[T]:
        """Parse a list in brackets, `<...>` or `(...)`, each item with `read`."""
        opening = self._peek() or ""
        self._take(opening)
        found = [read()]
        while self._peek() == ",":
            self._take(",")
            found.append(read())
        self._take(_BRACKETS[opening])
        return found

    def _number(self) -> int:
        if not (self._peek() or "").isdigit():
            raise self._unknown()
        self._at += 1
        return int(self._tokens[self._at - 1][0])

    def _word(self) -> str:
        if not self._next_is_word():
            raise self._unknown()
        self._at += 1
        return self._tokens[self._at - 1][0].upper()

    def _next_is_word(self) -> bool:
        if self._at >= len(self._tokens):
            return False
        text, quoted = self._tokens[self._at]
        return not quoted and bool(text[0].isalpha() or text[0] == "_")

    def _peek(self) -> str | None:
        return self._tokens[self._at][0] if self._at < len(self._tokens) else None

    def _take(self, token: str) -> None:
        if self._peek() != token:
            raise self._unknown()
        self._at += 1

    def _unknown(self, name: str = "") -> QueryError:
        known = [*SQL_TYPES, "DECIMAL(18, 3)", *_NESTED]
        return QueryError(f"unknown type `{self._text}`", hint=did_you_mean(name or self._text.upper(), known))
