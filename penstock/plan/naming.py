"""The names results get when the user gives none. Both front ends use them, so that equal queries give equal plans."""

from __future__ import annotations

from collections.abc import Collection
from datetime import date, datetime, timedelta
from itertools import count

from penstock.expressions import Call, Case, Cast, Column, Expr, Literal, Scalar


def default_name(expression: Expr) -> str:
    """The name of an expression without an alias: that of the column it is, or its text."""
    return expression.name if isinstance(expression, Column) else text_of(expression)


def aggregate_name(function: str, argument: Expr | None) -> str:
    """The name of an aggregate without an alias: `count`, `sum_duration`; only the function where it has no column."""
    return f"{function}_{argument.name}" if isinstance(argument, Column) else function


def unique_name(name: str, taken: Collection[str]) -> str:
    """The name itself, or with the first number behind it that makes it new."""
    if name not in taken:
        return name
    return next(numbered for i in count(2) if (numbered := f"{name}_{i}") not in taken)


def text_of(expression: Expr) -> str:
    """An expression as a reader would write it. For names and messages only: it is never parsed again."""
    match expression:
        case Column(name):
            return name
        case Literal(value):
            return _literal(value)
        case Call(function, arguments):
            return _call(function, arguments)
        case Cast(operand, type_, lenient):
            return f"{'TRY_CAST' if lenient else 'CAST'}({text_of(operand)} AS {type_})"
        case Case(branches, default):
            whens = " ".join(f"WHEN {text_of(c)} THEN {text_of(v)}" for c, v in branches)
            return f"CASE {whens} ELSE {text_of(default)} END"


def _literal(value: Scalar) -> str:
    match value:
        case None:
            return "NULL"
        case bool():
            return str(value).upper()
        case str():
            return "'" + value.replace("'", "''") + "'"
        case datetime():
            return f"TIMESTAMP '{value}'"
        case date():
            return f"DATE '{value}'"
        case timedelta():
            return f"INTERVAL '{value}'"
    return str(value)


def _call(function: str, arguments: tuple[Expr, ...]) -> str:
    if function.isidentifier() and function not in ("and", "or", "not", "like", "ilike"):
        return f"{function}({', '.join(map(text_of, arguments))})"
    parts = [_operand(argument) for argument in arguments]
    if len(parts) == 1:
        return f"{function} {parts[0]}" if function.isalpha() else f"{function}{parts[0]}"
    return f" {function} ".join(parts)


def _operand(expression: Expr) -> str:
    """An operand of an operator: anything that is itself an operator goes into parentheses."""
    text = text_of(expression)
    return f"({text})" if isinstance(expression, Call) and not text.startswith(f"{expression.function}(") else text
