"""The condition of a theta join, split into conjuncts.

A conjunct that compares an expression over one input with one over the other can be decided by sorting (`ranges`). All
other conjuncts are evaluated for each candidate pair.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from penstock.arrow import type_in
from penstock.errors import QueryError
from penstock.expr.comparisons import MIRRORED, halves_of
from penstock.expr.evaluate.scalar import check_predicate, result_schema
from penstock.expr.tree import Call, Expr, Named
from penstock.expr.walk import children, columns_of, conjuncts_of, walk

_LOSES_DIGITS = ("strptime", "try_strptime")  # may return nanoseconds, which a column truncates to microseconds


@dataclass(frozen=True)
class Comparison:
    """A comparison `sides[0] operator sides[1]`, where sides[n] reads only columns of port n, and both sides are
    compared as values of one kind: see `ranges`."""

    sides: tuple[Expr, Expr]
    operator: str

    def seen_from(self, port: int) -> str:
        """Return the operator with the side of `port` on its left."""
        return self.operator if port == 0 else MIRRORED[self.operator]


@dataclass(frozen=True)
class Conjunct:
    """A conjunct, and its comparison if sorting can decide it."""

    expression: Expr
    comparison: Comparison | None


def parts_of(condition: Expr | None, schemas: tuple[pa.Schema, pa.Schema]) -> tuple[Conjunct, ...]:
    """Return the conjuncts of a condition over the columns of two inputs, in order."""
    if condition is None:
        return ()
    parts = (half for part in conjuncts_of(condition) for half in _halves(part, both(schemas)))
    return tuple(Conjunct(part, _comparison(part, schemas)) for part in parts)


def both(schemas: tuple[pa.Schema, pa.Schema]) -> pa.Schema:
    """Return the columns of both inputs that a condition may name, which are those without #."""
    return pa.schema([field for schema in schemas for field in schema if not field.name.startswith("#")])


def check_condition(condition: Expr | None, schemas: tuple[pa.Schema, pa.Schema]) -> None:
    """Raise QueryError if both inputs have a column of one name, or the condition is not a predicate over their
    columns."""
    names = both(schemas).names
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise QueryError(f"both inputs of a join have a column `{twice[0]}`", hint="give one of them another name")
    if condition is not None:
        check_predicate(both(schemas), condition)


def _halves(expression: Expr, schema: pa.Schema) -> tuple[Expr, ...]:
    """Split a BETWEEN whose operands have one type into two conjuncts."""
    halves = halves_of(expression)
    if len(halves) == 1 or len({_type(operand, schema) for operand in children(expression)}) == 1:
        return halves
    return (expression,)


def _comparison(expression: Expr, schemas: tuple[pa.Schema, pa.Schema]) -> Comparison | None:
    """Return the conjunct as a comparison of one side with the other; None if it is not one that sorting can decide."""
    match expression:
        case Call(operator, (left, right)) if operator in MIRRORED:
            straight, turned = Comparison((left, right), operator), Comparison((right, left), MIRRORED[operator])
            return next((c for c in (straight, turned) if _can_be_sorted(c, schemas)), None)
    return None


def _can_be_sorted(comparison: Comparison, schemas: tuple[pa.Schema, pa.Schema]) -> bool:
    """Return whether each side is over columns of its port and the types are comparable."""
    left, right = (_type(side, schema) for side, schema in zip(comparison.sides, schemas, strict=True))
    return left is not None and right is not None and _comparable(left, right)


def _comparable(left: pa.DataType, right: pa.DataType) -> bool:
    """Return whether numpy orders values of the two types like DuckDB. An integer and a DOUBLE are compared as doubles.
    Other mixtures, such as FLOAT and BIGINT or different DECIMAL types, are left to DuckDB."""
    t = pa.types
    if left == right or (t.is_integer(left) and t.is_integer(right)) or (t.is_floating(left) and t.is_floating(right)):
        return True
    return bool((t.is_integer(left) and t.is_float64(right)) or (t.is_float64(left) and t.is_integer(right)))


def _type(expression: Expr, schema: pa.Schema) -> pa.DataType | None:
    """Return the type of an expression over columns of the schema; None if it has other columns or cannot be sorted
    by."""
    if not set(columns_of(expression)) <= set(schema.names) or _loses_digits(expression):
        return None
    try:
        return type_in(result_schema(schema, (Named("side", expression),)), 0)
    except QueryError:
        return None


def _loses_digits(expression: Expr) -> bool:
    """Return whether a value may have more precision than the column that it is stored in."""
    return any(isinstance(part, Call) and part.function.lower() in _LOSES_DIGITS for part in walk(expression))
