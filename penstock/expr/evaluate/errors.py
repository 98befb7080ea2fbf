"""Translation of DuckDB's errors about an expression into errors about the query."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import cast

import duckdb
import pyarrow as pa

from penstock.errors import EvaluationError, QueryError, did_you_mean
from penstock.expr.text import text
from penstock.expr.tree import Call, Case, Cast, Expr, Literal
from penstock.expr.walk import children
from penstock.type_names import arrow_type

TypeOf = Callable[[Expr], str]  # returns the SQL type of an expression or raises duckdb.Error

_CLASS = re.compile(r"^[A-Za-z -]+ Error: ")
_OUR_COLUMN = re.compile(r" when casting from source column c\d+| in expression .*|\. In order to select one.*")
_ADVICE = re.compile(r"\s*You might need to add explicit type casts\.?")

_UNFIT = {
    "+": "cannot be added", "-": "cannot be subtracted", "*": "cannot be multiplied", "/": "cannot be divided",
    "//": "cannot be divided", "%": "cannot be divided", "=": "cannot be compared", "<>": "cannot be compared",
    "<": "cannot be compared", "<=": "cannot be compared", ">": "cannot be compared", ">=": "cannot be compared",
}  # fmt: skip
_CAST_HINT = "convert a time to a number with epoch_us(...), and a number to a time with make_timestamp(...)"
_HINTS = (
    ("division by zero", "divide by nullif(..., 0) to get NULL instead"),
    ("overflow", "cast an operand to a wider type, such as DOUBLE"),
    ("out of range", "use a wider type, or TRY_CAST to get NULL for such values"),
    ("could not convert", "use TRY_CAST to get NULL for such values"),
)


def unfit(expression: Expr, type_of: TypeOf, error: duckdb.Error) -> QueryError:
    """Return the error for an expression that cannot be typed for its columns. It names the smallest part that
    fails."""
    part, reason = _culprit(expression, type_of, error)
    match part:
        case Call("struct_extract", (operand, Literal(field))):
            return _no_field(operand, str(field), type_of(operand), _plain(reason))
    return QueryError(_sentence(part, type_of, reason), detail=_plain(reason), hint=_hint_for_types(part, reason))


def _no_field(operand: Expr, field: str, type_: str, detail: str) -> QueryError:
    """Return the error for a field that a value does not have."""
    if not type_.startswith("STRUCT("):
        hint = "only a STRUCT has fields; write m['key'] for an entry of a MAP, a[1] for an element of an array"
        return QueryError(f"`{text(operand)}` is of type {type_}, and has no field `{field}`", hint=hint)
    known = [known.name for known in cast(pa.StructType, arrow_type(type_))]
    return QueryError(f"`{text(operand)}` has no field `{field}`", detail=detail, hint=did_you_mean(field, known))


def failure(expression: Expr, error: duckdb.Error) -> EvaluationError:
    """Return the error for an expression that failed on the data."""
    detail = _plain(error)
    hint = next((advice for sign, advice in _HINTS if sign in detail.lower()), "")
    return EvaluationError(f"`{text(expression)}` failed on the data", detail=detail, hint=hint)


def _culprit(expression: Expr, type_of: TypeOf, error: duckdb.Error) -> tuple[Expr, duckdb.Error]:
    """Return the smallest part of the expression that DuckDB cannot type, and DuckDB's error for it."""
    for child in children(expression):
        try:
            type_of(child)
        except duckdb.Error as deeper:
            return _culprit(child, type_of, deeper)
    return expression, error


def _sentence(part: Expr, type_of: TypeOf, error: duckdb.Error) -> str:
    """Return the message for an expression that cannot be typed, with the types of its operands if they are the
    cause."""
    if not _is_about_types(error):
        return f"`{text(part)}` cannot be computed"
    match part:
        case Cast(operand, type_):
            return f"`{text(part)}`: {type_of(operand)} cannot be cast to {type_.upper()}"
        case Case(branches, default):
            types = dict.fromkeys(type_of(value) for value in [*(v for _, v in branches), default])
            return f"`{text(part)}`: the branches have types that do not fit together, {' and '.join(types)}"
        case Call(function, (left, right)) if function in _UNFIT:
            return f"`{text(part)}`: {type_of(left)} and {type_of(right)} {_UNFIT[function]}"
        case Call(function, arguments):
            types = ", ".join(map(type_of, arguments))  # type: ignore[assignment]
            return f"`{text(part)}`: `{function}` does not take ({types})"
    return f"`{text(part)}` cannot be computed"


def _is_about_types(error: duckdb.Error) -> bool:
    """Return whether DuckDB rejected the types rather than the values of the operands."""
    return isinstance(error, duckdb.BinderException) or "Unimplemented type for cast" in str(error)


def _hint_for_types(part: Expr, error: duckdb.Error) -> str:
    """Return a hint on conversions if the types are the cause."""
    if not _is_about_types(error):
        return ""
    return _CAST_HINT if isinstance(part, Cast) else "cast to a type that fits, with CAST(... AS ...)"


def _plain(error: duckdb.Error) -> str:
    """Return the first line of DuckDB's message, without the internal column names of the evaluator."""
    lines = str(error).strip().splitlines() or [""]
    return _ADVICE.sub("", _OUR_COLUMN.sub("", _CLASS.sub("", lines[0]))).strip()
