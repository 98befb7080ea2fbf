"""Expressions as SQL text, with quotes and parentheses only where they are needed.

The text is for plans, messages and cache keys; it is never executed. It is exact: DuckDB parses it as the same
expression, including constants and their types, so two expressions with equal text mean the same. Equality of the trees
does not imply that: in Python, Literal(1) == Literal(True).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

from penstock.expr.functions import ALIASES
from penstock.expr.tree import Call, Case, Cast, Column, Expr, Literal, Scalar

_OR, _AND, _NOT, _TEST, _CONCAT, _SUM, _PRODUCT, _SIGN, _ATOM = range(1, 10)
_Written = tuple[str, int]  # text, and the precedence of its outermost operator

_INFIX = {
    "or": _OR, "and": _AND, "||": _CONCAT, "+": _SUM, "-": _SUM, "*": _PRODUCT, "/": _PRODUCT, "//": _PRODUCT,
    "%": _PRODUCT,
}  # fmt: skip
_TESTS = {
    "=": "=", "<>": "<>", "<": "<", "<=": "<=", ">": ">", ">=": ">=",
    "is_distinct_from": "IS DISTINCT FROM", "is_not_distinct_from": "IS NOT DISTINCT FROM",
}  # fmt: skip
_POSTFIX = {"is_null": "IS NULL", "is_not_null": "IS NOT NULL"}
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PLAIN_FUNCTION = re.compile(r"[a-z_][a-z0-9_]*")

# Words that need quotes as a column name in at least some positions: the reserved words of DuckDB and similar ones.
_KEYWORDS = """
    all analyse analyze and anti any array as asc asof asymmetric at authorization between bigint binary bit boolean
    both by case cast char character check coalesce collate collation column columns concurrently constraint create
    cross dec decimal default deferrable desc describe distinct do else end except exists extract false fetch float for
    foreign freeze from full generated glob group grouping grouping_id having ilike in initially inner inout int integer
    intersect interval into is isnull join lambda lateral leading left like limit map national natural nchar none not
    notnull null nullif numeric offset on only or order out outer overlaps overlay pivot pivot_longer pivot_wider
    placing position positional precision primary qualify real references returning right row select semi setof show
    similar smallint some struct substring summarize symmetric table tablesample then time timestamp to trailing treat
    trim true try_cast tuple union unique unpack unpivot using values varchar variadic verbose when where window with
    xmlattributes xmlconcat xmlelement xmlexists xmlforest xmlnamespaces xmlparse xmlpi xmlroot xmlserialize xmltable
"""
KEYWORDS = frozenset(_KEYWORDS.split())


def text(expression: Expr) -> str:
    """Return the expression as SQL."""
    return _write(expression)[0]


def quoted(name: str) -> str:
    """Return a name as SQL, quoted only if necessary."""
    if _PLAIN_NAME.fullmatch(name) and name.lower() not in KEYWORDS:
        return name
    return '"' + name.replace('"', '""') + '"'


def signed_integer(expression: Expr) -> int | None:
    """Return the value of an integer constant preceded by any number of minus signs; None for other expressions. SQL
    reads -2147483648 as one INTEGER."""
    match expression:
        case Literal(int() as value) if not isinstance(value, bool):
            return value
        case Call("-", (operand,)):
            inner = signed_integer(operand)
            return None if inner is None else -inner
    return None


def _write(expression: Expr) -> _Written:
    """Return the text of an expression and its precedence."""
    match expression:
        case Column(name):
            return quoted(name), _ATOM
        case Literal(value):
            return _constant(value)
        case Call("-", (_,)) if (number := signed_integer(expression)) is not None:
            return _constant(number)
        case Call(function, arguments):
            return _call(ALIASES.get(function.lower(), function.lower()), arguments)
        case Cast(operand, type_, lenient):
            return f"{'TRY_CAST' if lenient else 'CAST'}({text(operand)} AS {type_.upper()})", _ATOM
        case Case(branches, default):
            parts = [f"WHEN {text(condition)} THEN {text(value)}" for condition, value in branches]
            return " ".join(["CASE", *parts, "ELSE", text(default), "END"]) if parts else text(default), _ATOM


def _within(expression: Expr, level: int) -> str:
    """Return the text of an operand, in parentheses if its precedence is lower than `level`."""
    written, binding = _write(expression)
    return written if binding >= level else f"({written})"


def _call(function: str, arguments: tuple[Expr, ...]) -> _Written:
    """Return the text of a function call or operator and its precedence."""
    match function, arguments:
        case "-", (operand,):
            return f"-{_within(operand, _ATOM)}", _SIGN
        case "not", (operand,):
            return f"NOT {_within(operand, _NOT)}", _NOT
        case (("like" | "ilike"), (operand, pattern, *escape)):
            tail = f" ESCAPE {_within(escape[0], _ATOM)}" if escape else ""
            return f"{_within(operand, _CONCAT)} {function.upper()} {_within(pattern, _CONCAT)}{tail}", _TEST
        case "in", (operand, *members):
            return f"{_within(operand, _CONCAT)} IN ({', '.join(map(text, members))})", _TEST
        case "between", (operand, low, high):
            bounds = f"{_within(low, _CONCAT)} AND {_within(high, _CONCAT)}"
            return f"{_within(operand, _CONCAT)} BETWEEN {bounds}", _TEST
        case "struct_extract", (operand, Literal(str() as field)):
            return f"({text(operand)}).{quoted(field)}", _ATOM
        case _, (operand,) if function in _POSTFIX:
            return f"{_within(operand, _CONCAT)} {_POSTFIX[function]}", _TEST
        case _, (left, right) if function in _TESTS:
            return f"{_within(left, _CONCAT)} {_TESTS[function]} {_within(right, _CONCAT)}", _TEST
        case _, (first, *rest) if rest and function in _INFIX:
            level = _INFIX[function]
            return f" {function.upper()} ".join([_within(first, level), *(_within(r, level + 1) for r in rest)]), level
    name = function if _PLAIN_FUNCTION.fullmatch(function) else f'"{function}"'
    return f"{name}({', '.join(map(text, arguments))})", _ATOM


def _constant(value: Scalar) -> _Written:
    """Return the text of a constant and its precedence: a negative number is an expression with a sign."""
    for kind, write in _CONSTANTS:
        if isinstance(value, kind):
            written = write(value)
            return written, _SIGN if written.startswith("-") else _ATOM
    return "NULL" if value is None else repr(value), _ATOM


def _bool(value: bool) -> str:
    return "TRUE" if value else "FALSE"


def _float(value: float) -> str:
    if not math.isfinite(value):
        return f"CAST('{value}' AS DOUBLE)"
    written = repr(float(value))
    return written if "e" in written else f"{written}e0"  # without an exponent SQL reads a decimal


def _decimal(value: Decimal) -> str:
    exponent = value.as_tuple().exponent
    if isinstance(exponent, int) and exponent < 0:
        return f"{value:f}"
    written = f"{value:f}"
    return f"CAST('{written}' AS DECIMAL({len(written.lstrip('-'))}, 0))"


def _string(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _bytes(value: bytes) -> str:
    return "CAST('" + "".join(f"\\x{byte:02x}" for byte in value) + "' AS BLOB)"


def _datetime(value: datetime) -> str:
    utc = value if value.tzinfo is None else value.astimezone(UTC).replace(tzinfo=None)
    return f"TIMESTAMP '{utc.isoformat(sep=' ')}'"


def _date(value: date) -> str:
    return f"DATE '{value.isoformat()}'"


def _interval(value: timedelta) -> str:
    parts = [(value.days, "day"), (value.seconds, "second"), (value.microseconds, "microsecond")]
    named = [f"{count} {unit}{'' if count == 1 else 's'}" for count, unit in parts if count]
    return f"INTERVAL '{' '.join(named) or '0 seconds'}'"


# The order matters: a bool is an int, and a datetime is a date.
_CONSTANTS: tuple[tuple[type, Callable[..., str]], ...] = (
    (bool, _bool), (int, str), (float, _float), (Decimal, _decimal), (str, _string), (bytes, _bytes),
    (datetime, _datetime), (date, _date), (timedelta, _interval),
)  # fmt: skip
