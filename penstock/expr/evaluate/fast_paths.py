"""Expressions over 64-bit integers that need no DuckDB: the remainder by a constant, and comparisons with a constant.

DuckDB takes one or two milliseconds for any expression. Most keys and filters of small epochs are of these kinds; they
cannot fail on any data, and their semantics are the same in Arrow and in SQL.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeGuard

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.expr.tree import Call, Column, Expr, Literal
from penstock.kernels.hash import as_array

Compute = Callable[[pa.Table], pa.Array]

_COMPARISONS = {
    "=": pc.equal, "<>": pc.not_equal, "<": pc.less, "<=": pc.less_equal, ">": pc.greater, ">=": pc.greater_equal,
}  # fmt: skip
_LARGEST = 2**63 - 1


def plain(schema: pa.Schema, expression: Expr) -> Compute | None:
    """Return a function that computes the expression, a BIGINT or a BOOLEAN; None if the expression is not of these
    kinds."""
    match expression:
        case Call(function, (left, Literal(constant))) if function in _COMPARISONS and _is_whole(constant):
            compare, value = _COMPARISONS[function], number(schema, left)
            return None if value is None else lambda rows: compare(value(rows), pa.scalar(constant, pa.int64()))
    return number(schema, expression) if isinstance(expression, Call) else None


def number(schema: pa.Schema, expression: Expr) -> Compute | None:
    """Return a function that computes a BIGINT column or a remainder of one; None for all other expressions."""
    match expression:
        case Column(name) if name in schema.names and pa.types.is_int64(schema.field(name).type):
            return lambda rows: as_array(rows.column(name))
        case Call("%", (left, Literal(constant))) if _is_whole(constant) and constant > 0:
            value = number(schema, left)
            return None if value is None else lambda rows: _remainders(value(rows), constant)
    return None


def _is_whole(constant: object) -> TypeGuard[int]:
    """Return whether a constant is an integer that fits a BIGINT."""
    return isinstance(constant, int) and not isinstance(constant, bool) and abs(constant) <= _LARGEST


def _remainders(values: pa.Array, divisor: int) -> pa.Array:
    """Return the remainders with the sign of the dividend, as in SQL. Nulls stay null."""
    filled = (values.fill_null(0) if values.null_count else values).to_numpy()
    found = pa.array(np.fmod(filled, divisor) if _some_negative(filled) else _rest(filled, divisor))
    return pc.if_else(values.is_valid(), found, pa.scalar(None, pa.int64())) if values.null_count else found


def _some_negative(values: npt.NDArray[np.int64]) -> bool:
    """Return whether any value is negative."""
    return bool(len(values)) and int(values.min()) < 0


def _rest(values: npt.NDArray[np.int64], divisor: int) -> npt.NDArray[np.int64]:
    """Return the remainders of non-negative integers by a multiplication, which takes half the time of `fmod`."""
    rest = values // divisor
    rest *= -divisor
    rest += values
    return rest
