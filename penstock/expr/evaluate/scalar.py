"""Evaluation of expression trees over Arrow tables.

Plain columns pass through, the simplest expressions are computed by Arrow kernels (`plain`), and all others by
DuckDB, which gets only the columns they read. Row order is kept. Results have the types of `penstock.types`: a wider or
foreign type is cast, and a value that does not fit raises EvaluationError.

Types of expressions, determined by letting DuckDB evaluate them for one row of nulls.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TypeGuard

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.arrow import AnyArray, AnyChunked
from penstock.errors import EvaluationError, QueryError
from penstock.expr.evaluate import connection as duck
from penstock.expr.evaluate.duckdb_tree import Duck, build, constant
from penstock.expr.evaluate.errors import failure, unfit
from penstock.expr.text import text
from penstock.expr.tree import Call, Case, Cast, Column, Expr, Literal, Named
from penstock.expr.walk import children, columns_of, conjuncts_of
from penstock.type_names import arrow_type, sql_type
from penstock.types import as_array, require_column

_COMPARISONS = {
    "=": pc.equal, "<>": pc.not_equal, "<": pc.less, "<=": pc.less_equal, ">": pc.greater, ">=": pc.greater_equal,
}  # fmt: skip
_LARGEST = 2**63 - 1
_STORED_AS = {
    "HUGEINT": "BIGINT", "UHUGEINT": "BIGINT", "UBIGINT": "BIGINT", "UINTEGER": "BIGINT", "USMALLINT": "INTEGER",
    "UTINYINT": "SMALLINT", "TIMESTAMP_S": "TIMESTAMP", "TIMESTAMP_MS": "TIMESTAMP", "TIMESTAMP_NS": "TIMESTAMP",
    "TIMESTAMP WITH TIME ZONE": "TIMESTAMP", "JSON": "VARCHAR", '"NULL"': "INTEGER", "NULL": "INTEGER",
}  # fmt: skip
_SAMPLES = {"BOOLEAN": "true", "DATE": "1970-01-01", "BLOB": "", "INTERVAL": "1 day"}


def evaluate(table: pa.Table, columns: Sequence[Named]) -> pa.Table:
    """Return a table of these columns, in the same row order."""
    if not columns:
        return table.select([])
    if (copied := _copied(table, columns)) is not None:
        return copied
    compiled = _compile(_task(table.schema, columns))
    computed = _compute(table, compiled)
    arrays = [computed[c.name] if c.name in computed else table.column(_source(c)) for c in columns]
    return pa.table(arrays, schema=compiled.schema)


def _copied(table: pa.Table, columns: Sequence[Named]) -> pa.Table | None:
    """Return the result if all columns are plain, so that nothing is compiled; None if they are not, or are
    invalid."""
    places = [table.schema.get_field_index(c.expression.name) for c in columns if isinstance(c.expression, Column)]
    names = [c.name for c in columns]
    if len(places) < len(columns) or min(places) < 0 or len(set(names)) < len(names):
        return None
    return pa.table([table.column(place) for place in places], names=names)


def keep(table: pa.Table, predicate: Expr) -> pa.Table:
    """Return the rows for which the predicate is true.

    The operands of an AND are evaluated from left to right, each only for rows that satisfied the previous ones, so
    that earlier operands can guard later ones (`b <> 0 AND a // b > 1`).
    """
    check_predicate(table.schema, predicate)
    try:
        mask = evaluate(table, (Named("kept", _guarded(predicate)),)).column(0)
    except EvaluationError as error:
        what = f"`{text(predicate)}` failed on the data"
        raise EvaluationError(what, detail=error.detail, hint=error.hint) from error
    return table if pc.sum(mask).as_py() == table.num_rows else table.filter(mask)


def result_schema(schema: pa.Schema, columns: Sequence[Named]) -> pa.Schema:
    """Return the schema of `evaluate` for tables of `schema`. Raises QueryError if an expression does not fit the
    schema."""
    return _compile(_task(schema, columns)).schema


def check_predicate(schema: pa.Schema, predicate: Expr) -> None:
    """Raise QueryError unless the predicate fits the schema and is a BOOLEAN."""
    found = result_schema(schema, (Named("predicate", predicate),)).field(0).type
    if not pa.types.is_boolean(found):
        raise QueryError(
            f"the condition `{text(predicate)}` is of type {sql_type(found)}, not BOOLEAN",
            hint=f"compare it with something, as in `{text(Call('<>', (predicate, Literal(0))))}`",
        )


@dataclass(frozen=True)
class _Task:
    """The key of a compilation. Compared by text, because the trees hold Python values, of which 1, True and 1.0 are
    equal."""

    schema: pa.Schema
    key: tuple[tuple[str, str], ...]
    columns: tuple[Named, ...] = field(compare=False)


@dataclass(frozen=True)
class _Compiled:
    """Compiled result columns by name: `plain` for those computed here; `expressions`, with their `trees`, for those
    computed by DuckDB from the columns `reads`."""

    schema: pa.Schema
    plain: dict[str, Compute]
    reads: tuple[str, ...]
    expressions: dict[str, Duck]
    trees: dict[str, Expr]


def _task(schema: pa.Schema, columns: Sequence[Named]) -> _Task:
    """Return the key of a compilation. Raises QueryError if an expression is nested too deeply."""
    try:
        return _Task(schema, tuple((c.name, text(c.expression)) for c in columns), tuple(columns))
    except RecursionError as error:
        raise QueryError("an expression is nested too deeply", hint="use IN instead of a chain of OR") from error


@lru_cache(maxsize=512)
def _compile(task: _Task) -> _Compiled:
    """Find the type of each result column, and decide which expressions DuckDB evaluates."""
    _check_names(task.schema, task.columns)
    trees: dict[str, Expr] = {c.name: c.expression for c in task.columns if not isinstance(c.expression, Column)}
    types = {name: column_type(task.schema, tree) for name, tree in trees.items()}
    here = {name: compute for name, tree in trees.items() if (compute := plain(task.schema, tree)) is not None}
    left = {name: tree for name, tree in trees.items() if name not in here}
    reads = tuple(dict.fromkeys(name for tree in left.values() for name in columns_of(tree)))
    expressions = {name: build(tree, positions(reads)).cast(types[name]) for name, tree in left.items()}
    fields = [pa.field(c.name, _field_type(task.schema, c, types)) for c in task.columns]
    return _Compiled(pa.schema(fields), here, reads, expressions, left)


def _field_type(schema: pa.Schema, column: Named, computed: dict[str, str]) -> pa.DataType:
    """Return the Arrow type of a result column."""
    return arrow_type(computed[column.name]) if column.name in computed else schema.field(_source(column)).type


def _check_names(schema: pa.Schema, columns: tuple[Named, ...]) -> None:
    """Raise QueryError if two result columns have one name or an expression reads an unknown column."""
    seen: set[str] = set()
    for column in columns:
        if column.name in seen:
            raise QueryError(f"two result columns are called `{column.name}`", hint="rename one of them")
        seen.add(column.name)
        context = "the query" if isinstance(column.expression, Column) else f"`{text(column.expression)}`"
        for name in columns_of(column.expression):
            require_column(schema, name, context)


def _source(column: Named) -> str:
    """Return the input column that a plain result column copies."""
    assert isinstance(column.expression, Column)
    return column.expression.name


def _compute(table: pa.Table, compiled: _Compiled) -> dict[str, AnyArray | AnyChunked]:
    """Return the computed columns by name."""
    return {name: compute(table) for name, compute in compiled.plain.items()} | _by_duckdb(table, compiled)


def _by_duckdb(table: pa.Table, compiled: _Compiled) -> dict[str, AnyChunked]:
    """Return the columns that DuckDB computes, by name."""
    if not compiled.expressions:
        return {}
    inputs = inputs_of(table, compiled.reads)
    try:
        _, result = duck.select(inputs, list(compiled.expressions.values()))
    except duckdb.Error as error:
        raise _blame(inputs, compiled, error) from error
    return dict(zip(compiled.expressions, result.columns, strict=True))


def _blame(inputs: pa.Table, compiled: _Compiled, error: duckdb.Error) -> EvaluationError:
    """Return the error of the first expression that also fails when evaluated alone."""
    for name, expression in compiled.expressions.items():
        try:
            duck.select(inputs, [expression])
        except duckdb.Error as alone:
            return failure(compiled.trees[name], alone)
    return failure(next(iter(compiled.trees.values())), error)


def _guarded(predicate: Expr) -> Expr:
    """Rewrite an AND as nested CASEs, because a CASE does not evaluate a branch for rows that its condition
    excludes."""
    parts = conjuncts_of(predicate)
    if len(parts) == 1:
        return predicate
    guarded: Expr = Literal(True)
    for part in reversed(parts):
        guarded = Case(((part, guarded),), Literal(False))
    return guarded


Compute = Callable[[pa.Table], AnyArray]


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


def _remainders(values: AnyArray, divisor: int) -> AnyArray:
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


_WIDER = re.compile("|".join(rf"(?<!\w){name}(?!\w)" for name in sorted(_STORED_AS, key=len, reverse=True)))


def column_type(schema: pa.Schema, expression: Expr) -> str:
    """Return the SQL type of a column computed by this expression. Raises QueryError if it cannot be typed, or if a
    column cannot have its type."""

    def type_of(part: Expr) -> str:
        return _type_of(schema, part)

    try:
        found = type_of(expression)
    except duckdb.Error as error:
        raise unfit(expression, type_of, error) from error
    try:
        return sql_type(arrow_type(_WIDER.sub(lambda wider: _STORED_AS[wider[0]], found)))
    except QueryError as error:
        raise QueryError(
            f"`{text(expression)}` is of type {found}, which a column cannot have",
            hint="use date_diff or epoch for the length of an INTERVAL, or cast to VARCHAR",
        ) from error


def positions(reads: Sequence[str]) -> dict[str, str]:
    """Return the name in DuckDB of each column read."""
    return {name: f"c{position}" for position, name in enumerate(reads)}


def inputs_of(table: pa.Table, reads: Sequence[str]) -> pa.Table:
    """Return the columns read, named by position; one dummy column if there are none, to carry the number of rows."""
    arrays: list[AnyArray | AnyChunked] = [table.column(name) for name in reads] or [
        pa.nulls(table.num_rows, pa.int8())
    ]
    return pa.table(arrays, names=[f"c{position}" for position in range(len(arrays))])


def _type_of(schema: pa.Schema, expression: Expr) -> str:
    """Return DuckDB's type of an expression after checking its casts. Raises duckdb.Error."""
    found = _bound_type(schema, expression)
    _check_casts(schema, expression)
    return found


def _bound_type(schema: pa.Schema, expression: Expr) -> str:
    """Return DuckDB's type of an expression. On nulls only constants can fail; a cast that DuckDB lacks goes
    unnoticed."""
    reads = tuple(dict.fromkeys(columns_of(expression)))
    nulls = pa.table([pa.nulls(1, schema.field(name).type) for name in reads], names=list(reads))
    types, _ = duck.select(inputs_of(nulls, reads), [build(expression, positions(reads))])
    return types[0]


def _check_casts(schema: pa.Schema, expression: Expr) -> None:
    """Raise duckdb.Error for the first cast between types that have none. Casts from VARCHAR always exist."""
    for child in children(expression):
        _check_casts(schema, child)
    if isinstance(expression, Cast) and not expression.lenient:
        source = _bound_type(schema, expression.operand)
        if source not in ("VARCHAR", '"NULL"', "NULL"):
            _try_cast(source, sql_type(arrow_type(expression.type)))


def _try_cast(source: str, target: str) -> None:
    """Raise duckdb.Error if DuckDB has no cast between the types, whatever the value."""
    sample = "1970-01-01" if source.startswith("TIMESTAMP") else _SAMPLES.get(source, "0")
    try:
        duck.select(pa.table({"c0": [0]}), [constant(sample).cast(source).cast(target)])
    except duckdb.Error as error:
        if "Unimplemented type for cast" in str(error):
            raise
