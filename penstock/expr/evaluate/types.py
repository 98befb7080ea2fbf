"""Types of expressions, determined by letting DuckDB evaluate them for one row of nulls."""

from __future__ import annotations

import re
from collections.abc import Sequence

import duckdb
import pyarrow as pa

from penstock.arrow import AnyArray, AnyChunked
from penstock.errors import QueryError
from penstock.expr.evaluate import connection as duck
from penstock.expr.evaluate.duckdb_tree import build, constant
from penstock.expr.evaluate.errors import unfit
from penstock.expr.text import text
from penstock.expr.tree import Cast, Expr
from penstock.expr.walk import children, columns_of
from penstock.type_names import arrow_type, sql_type

_STORED_AS = {
    "HUGEINT": "BIGINT", "UHUGEINT": "BIGINT", "UBIGINT": "BIGINT", "UINTEGER": "BIGINT", "USMALLINT": "INTEGER",
    "UTINYINT": "SMALLINT", "TIMESTAMP_S": "TIMESTAMP", "TIMESTAMP_MS": "TIMESTAMP", "TIMESTAMP_NS": "TIMESTAMP",
    "TIMESTAMP WITH TIME ZONE": "TIMESTAMP", "JSON": "VARCHAR", '"NULL"': "INTEGER", "NULL": "INTEGER",
}  # fmt: skip
_WIDER = re.compile("|".join(rf"(?<!\w){name}(?!\w)" for name in sorted(_STORED_AS, key=len, reverse=True)))
_SAMPLES = {"BOOLEAN": "true", "DATE": "1970-01-01", "BLOB": "", "INTERVAL": "1 day"}


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
