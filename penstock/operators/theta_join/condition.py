"""The condition of a theta join, taken apart.

A condition is a conjunction. A part of it that compares an expression over one input with one over the other can be
decided by sorting (`ranges`); all other parts are computed for each candidate pair.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from penstock.errors import QueryError
from penstock.expr.evaluate.errors import children
from penstock.expr.evaluate.scalar import check_predicate, result_schema
from penstock.expr.tree import Call, Expr, Named, columns_of

_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "="}
_LOSES_DIGITS = ("strptime", "try_strptime")  # they may give nanoseconds, of which a column keeps the microseconds


@dataclass(frozen=True)
class Comparison:
    """`sides[0] operator sides[1]`, where sides[n] reads columns of port n only, and both are compared as values of one
    kind: see `ranges`."""

    sides: tuple[Expr, Expr]
    operator: str

    def seen_from(self, port: int) -> str:
        """The operator with the side of `port` on its left."""
        return self.operator if port == 0 else _MIRRORED[self.operator]


@dataclass(frozen=True)
class Part:
    """A part of a conjunction, and the comparison it is, if it is one that sorting can decide."""

    expression: Expr
    comparison: Comparison | None


def parts_of(condition: Expr | None, schemas: tuple[pa.Schema, pa.Schema]) -> tuple[Part, ...]:
    """The parts of a condition over the columns of two inputs, in order."""
    if condition is None:
        return ()
    return tuple(Part(part, _comparison(part, schemas)) for part in _conjuncts(condition, both(schemas)))


def conjunction(parts: tuple[Part, ...]) -> Expr | None:
    """The expression that all of the parts form."""
    match [part.expression for part in parts]:
        case []:
            return None
        case [expression]:
            return expression
        case expressions:
            return Call("and", tuple(expressions))


def both(schemas: tuple[pa.Schema, pa.Schema]) -> pa.Schema:
    """The columns of both inputs that a condition may name."""
    return pa.schema([field for schema in schemas for field in schema if not field.name.startswith("#")])


def check_condition(condition: Expr | None, schemas: tuple[pa.Schema, pa.Schema]) -> None:
    names = both(schemas).names
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise QueryError(f"both inputs of a join have a column `{twice[0]}`", hint="give one of them another name")
    if condition is not None:
        check_predicate(both(schemas), condition)


def _conjuncts(expression: Expr, schema: pa.Schema) -> list[Expr]:
    match expression:
        case Call(function, arguments) if function.lower() == "and":
            return [part for argument in arguments for part in _conjuncts(argument, schema)]
        case Call("between", (operand, low, high)) if len({_type(e, schema) for e in (operand, low, high)}) == 1:
            return [Call(">=", (operand, low)), Call("<=", (operand, high))]
    return [expression]


def _comparison(expression: Expr, schemas: tuple[pa.Schema, pa.Schema]) -> Comparison | None:
    match expression:
        case Call(operator, (left, right)) if operator in _MIRRORED:
            straight, turned = Comparison((left, right), operator), Comparison((right, left), _MIRRORED[operator])
            return next((c for c in (straight, turned) if _can_be_sorted(c, schemas)), None)
    return None


def _can_be_sorted(comparison: Comparison, schemas: tuple[pa.Schema, pa.Schema]) -> bool:
    types = [_type(side, schema) for side, schema in zip(comparison.sides, schemas, strict=True)]
    return None not in types and _comparable(types[0], types[1])


def _comparable(left: pa.DataType, right: pa.DataType) -> bool:
    """Whether numpy orders values of two types as DuckDB does. An integer is compared with a DOUBLE as a double; other
    mixtures, such as FLOAT and BIGINT or two kinds of DECIMAL, are better left to DuckDB."""
    t = pa.types
    if left == right or (t.is_integer(left) and t.is_integer(right)) or (t.is_floating(left) and t.is_floating(right)):
        return True
    return bool((t.is_integer(left) and t.is_float64(right)) or (t.is_float64(left) and t.is_integer(right)))


def _type(expression: Expr, schema: pa.Schema) -> pa.DataType | None:
    """The type of an expression over columns of the schema; None if it is not one, or not to be sorted by."""
    if not set(columns_of(expression)) <= set(schema.names) or _loses_digits(expression):
        return None
    try:
        return result_schema(schema, (Named("side", expression),)).field(0).type
    except QueryError:
        return None


def _loses_digits(expression: Expr) -> bool:
    match expression:
        case Call(function) if function.lower() in _LOSES_DIGITS:
            return True
    return any(map(_loses_digits, children(expression)))
