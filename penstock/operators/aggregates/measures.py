"""The aggregate functions of queries: their argument types, partials and results.

Sessions and group-bys over equal times have groups that are not panes of a window. Their state rows contain key columns
and partials; the measures provide the kernels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.arrow import AnyArray, AnyField, type_in
from penstock.errors import EvaluationError, QueryError, did_you_mean
from penstock.kernels.arrays import Indices, Times, Words
from penstock.kernels.codes import NARROW_DECIMAL
from penstock.kernels.hash import canonical_keys, check_key_type, hash_columns, is_text, key_words
from penstock.kernels.segments import Segments
from penstock.operators.aggregates.summaries import (
    Count,
    DistinctValues,
    Edge,
    Extreme,
    FloatSum,
    RowCount,
    VarianceParts,
    WholeSum,
    decimal_sum,
    variance,
    whole_average,
    whole_sum,
)
from penstock.type_names import sql_type
from penstock.types import as_array, is_time_type, require_column, row_numbers

# The partials that each function needs. Measures of one column share them.
PARTIALS_OF: dict[str, tuple[str, ...]] = {
    "count": ("count",),
    "sum": ("sum",),
    "avg": ("sum", "count"),
    "min": ("min",),
    "max": ("max",),
    "stddev": ("moments",),
    "stddev_pop": ("moments",),
    "variance": ("moments",),
    "var_pop": ("moments",),
    "count_distinct": ("distinct",),
    "first": ("first",),
    "last": ("last",),
}
_NUMERIC = ("sum", "avg", "stddev", "stddev_pop", "variance", "var_pop")


class Partial(Protocol):
    """The mergeable summary of a column that an aggregate function is computed from."""

    @property
    def parts(self) -> dict[str, pa.DataType]:
        """Return the columns of the summary in a table of partials, with their types."""
        ...

    def of_rows(self, column: AnyArray | None, times: Indices, groups: Segments) -> list[AnyArray]:
        """Return the parts of each group of rows."""
        ...

    def merge(self, parts: Sequence[AnyArray], groups: Segments) -> list[AnyArray]:
        """Return the parts of each group of partials. The groups must be contiguous and without overlap."""
        ...

    def final(self, parts: Sequence[AnyArray], windows: Segments) -> list[AnyArray]:
        """Return the inputs of `Measure.result` for each window. Windows may overlap."""
        ...


@dataclass(frozen=True)
class Measure:
    """An aggregate over a column. `function` is one of PARTIALS_OF; `column` is None only for the count of all rows."""

    name: str
    function: str
    column: str | None

    @property
    def shown(self) -> str:
        """Return the column's name for messages, without the number sign that marks columns computed by the planner."""
        return (self.column or "*").removeprefix("#")

    @property
    def partials(self) -> tuple[tuple[str, str | None], ...]:
        """Return the kind and column of each partial that the measure needs."""
        return tuple((kind, self.column) for kind in PARTIALS_OF[self.function])

    def check(self, schema: pa.Schema) -> None:
        """Raise QueryError if the measure cannot be computed over rows of this schema."""
        if self.function not in PARTIALS_OF:
            raise QueryError(f"unknown aggregate `{self.function}`", hint=did_you_mean(self.function, PARTIALS_OF))
        if self.column is not None:
            self._check_type(require_column(schema, self.column, f"the aggregate `{self.name}`").type)
        elif self.function != "count":
            raise QueryError(f"`{self.function}` needs a column", hint="only `count` works without a column")

    def _check_type(self, type_: pa.DataType) -> None:
        """Raise QueryError if the function does not take values of this type."""
        if self.function in _NUMERIC and not _is_number(type_):
            hint = "cast it to a number" if self.function != "sum" else "cast it to a number, or use `count`"
            raise self._misfit(type_, hint)
        if self.function in ("sum", "avg") and pa.types.is_decimal(type_) and type_.precision > NARROW_DECIMAL:
            raise self._misfit(type_, f"cast it to DECIMAL({NARROW_DECIMAL}, {min(type_.scale, 9)}) or to DOUBLE")
        if self.function != "count" and not _is_orderable(type_):
            raise self._misfit(type_, "aggregate one of its fields instead")

    def _misfit(self, type_: pa.DataType, hint: str) -> QueryError:
        """Return the error for a column whose type the function does not take."""
        what = f"`{self.function}` cannot be applied to `{self.shown}`"
        return QueryError(what, detail=f"its type is {sql_type(type_)}", hint=hint)

    def result_type(self, schema: pa.Schema) -> pa.DataType:
        """Return the Arrow type of the result."""
        if self.column is None or self.function in ("count", "count_distinct"):
            return pa.int64()
        type_ = type_in(schema, self.column)
        match self.function:
            case "sum" if pa.types.is_decimal(type_):
                return pa.decimal128(38, type_.scale)
            case "sum" if pa.types.is_integer(type_):
                return pa.int64()
            case "min" | "max" | "first" | "last":
                return type_
        return pa.float64()

    def result(self, finals: Sequence[AnyArray], schema: pa.Schema) -> AnyArray:
        """Return the value of each window from the final parts of the measure's partials, in the order of
        `partials`."""
        match self.function:
            case "sum":
                return self._sum(finals, self._input_type(schema))
            case "avg":
                return _average(finals, self._input_type(schema))
            case "stddev" | "stddev_pop" | "variance" | "var_pop":
                root, sample = self.function.startswith("stddev"), not self.function.endswith("_pop")
                return variance(finals[0], finals[2], sample=sample, root=root)
        return finals[-1]

    def _input_type(self, schema: pa.Schema) -> pa.DataType:
        """Return the type of the column that is summed."""
        assert self.column is not None
        return type_in(schema, self.column)

    def _sum(self, finals: Sequence[AnyArray], type_: pa.DataType) -> AnyArray:
        """Return the sum of each window. Raises EvaluationError if a sum of integers does not fit a BIGINT."""
        if pa.types.is_decimal(type_):
            return decimal_sum(finals[0], finals[1], type_.scale)
        total = finals[0] if pa.types.is_floating(type_) else whole_sum(finals[0], finals[1])
        if total is None:
            raise EvaluationError(
                f"the sum `{self.name}` overflows",
                detail=f"the sum of `{self.shown}` over a window does not fit a BIGINT",
                hint=f"cast the column to DOUBLE or DECIMAL({NARROW_DECIMAL}, 0) in the sum",
            )
        return total


def _average(finals: Sequence[AnyArray], type_: pa.DataType) -> AnyArray:
    """Return the average of each window as doubles."""
    if pa.types.is_floating(type_):
        return pc.divide(finals[0], finals[1].cast(pa.float64()))
    return whole_average(finals[0], finals[1], finals[2], type_.scale if pa.types.is_decimal(type_) else 0)


def _partial_of(kind: str, type_: pa.DataType | None) -> Partial:
    """Return the partial of a kind over a column of a type (None: over all rows)."""
    match kind:
        case "count":
            return RowCount() if type_ is None else Count()
    if type_ is None:
        raise ValueError(kind)
    match kind:
        case "sum":
            return FloatSum() if pa.types.is_floating(type_) else WholeSum()
        case "moments":
            return VarianceParts()
        case "min" | "max":
            return Extreme(type_, kind == "max")
        case "first" | "last":
            return Edge(type_, kind == "last")
        case "distinct":
            return DistinctValues(type_)
    raise ValueError(kind)


@dataclass(frozen=True)
class PartialColumns:
    """A partial that some measures need, and its columns in a table of partials."""

    kind: str
    column: str | None
    kernel: Partial

    @property
    def types(self) -> dict[str, pa.DataType]:
        """Return the types of the partial's columns by name, such as `sum.upper(price)`."""
        return {f"{self.kind}.{part}({self.column or '*'})": type_ for part, type_ in self.kernel.parts.items()}

    def of(self, table: pa.Table) -> list[AnyArray]:
        """Return the partial's columns of a table."""
        return [as_array(table.column(name)) for name in self.types]


def partials_of(measures: Sequence[Measure], schema: pa.Schema) -> dict[tuple[str, str | None], PartialColumns]:
    """Return the partials that the measures need, each once, by kind and column."""
    wanted = dict.fromkeys(partial for measure in measures for partial in measure.partials)
    types = {column: None if column is None else schema.field(column).type for _, column in wanted}
    return {(kind, column): PartialColumns(kind, column, _partial_of(kind, types[column])) for kind, column in wanted}


def _is_number(type_: pa.DataType) -> bool:
    """Return whether the type is an integer, float or decimal type."""
    return bool(pa.types.is_integer(type_) or pa.types.is_floating(type_) or pa.types.is_decimal(type_))


def _is_orderable(type_: pa.DataType) -> bool:
    """Return whether values of the type have order-preserving codes."""
    t = pa.types
    other = t.is_boolean(type_) or t.is_string(type_) or t.is_binary(type_) or t.is_date32(type_)
    return _is_number(type_) or bool(other or t.is_timestamp(type_))


Arrays: TypeAlias = list[AnyArray]


@dataclass(frozen=True)
class GroupPartials:
    """The keys and measures of a group-by over rows of `input_schema`. Key n is called `key.n` in state rows, so that
    users' names cannot collide with those of the engine."""

    keys: tuple[str, ...]
    measures: tuple[Measure, ...]
    input_schema: pa.Schema

    def check(self, result_schema_names: Sequence[str]) -> None:
        """Raise QueryError if a key or measure does not fit the schema, or if two result columns have one name."""
        for key in self.keys:
            check_key_type(require_column(self.input_schema, key, "the keys").type, key)
        for measure in self.measures:
            measure.check(self.input_schema)
        if twice := sorted({name for name in result_schema_names if list(result_schema_names).count(name) > 1}):
            raise QueryError(f"two columns of the result are called `{twice[0]}`", hint="give one of them another name")

    @property
    def key_fields(self) -> list[AnyField]:
        """Return the fields of the keys in the result."""
        return [self.input_schema.field(key) for key in self.keys]

    @property
    def stored_key_fields(self) -> list[AnyField]:
        """Return the fields of the keys in state rows."""
        return [field.with_name(f"key.{i}") for i, field in enumerate(self.key_fields)]

    @property
    def stored_part_fields(self) -> list[AnyField]:
        """Return the fields of the partials in state rows."""
        return [pa.field(name, type_) for p in self._plan.values() for name, type_ in p.types.items()]

    @property
    def measure_fields(self) -> list[AnyField]:
        """Return the fields of the measures in the result."""
        return [pa.field(m.name, m.result_type(self.input_schema)) for m in self.measures]

    def keys_of_rows(self, rows: pa.Table) -> Arrays:
        """Return the keys of input rows in canonical form."""
        return canonical_keys([rows.column(key) for key in self.keys])

    def stored_keys(self, table: pa.Table) -> Arrays:
        """Return the keys of state rows."""
        return [as_array(table.column(field.name)) for field in self.stored_key_fields]

    def of_rows(self, rows: pa.Table, times: Times, groups: Segments) -> Arrays:
        """Return the partials of each group of rows."""
        columns = {name: None if name is None else as_array(rows.column(name)) for _, name in self._plan}
        parts = (p.kernel.of_rows(columns[p.column], times, groups) for p in self._plan.values())
        return [array for part in parts for array in part]

    def merge(self, table: pa.Table, groups: Segments) -> Arrays:
        """Return the partials of each group of state rows. The groups must be contiguous and without overlap."""
        return [array for p in self._plan.values() for array in p.kernel.merge(p.of(table), groups)]

    def results(self, table: pa.Table, groups: Segments) -> Arrays:
        """Return the measures of each group of state rows."""
        finals = {which: p.kernel.final(p.of(table), groups) for which, p in self._plan.items()}
        return [m.result([f for p in m.partials for f in finals[p]], self.input_schema) for m in self.measures]

    @property
    def _plan(self) -> dict[tuple[str, str | None], PartialColumns]:
        """Return the partials that the measures need, by kind and column."""
        return partials_of(self.measures, self.input_schema)


def check_time(schema: pa.Schema, name: str, context: str) -> None:
    """Raise QueryError if the schema has no such column or it is not a time."""
    field = require_column(schema, name, context)
    if not is_time_type(field.type):
        hint = "use a TIMESTAMP or a BIGINT column"
        raise QueryError(f"{context} cannot be over `{name}`", detail=f"its type is {sql_type(field.type)}", hint=hint)


def encoded(keys: Arrays) -> Arrays:
    """Return text columns in dictionary encoding, so that each text is hashed and compared once."""
    return [key.dictionary_encode() if is_text(key.type) else key for key in keys]


def hashes_and_words(keys: Arrays, bits: int, rows: int) -> tuple[Words, list[Words]]:
    """Return the hash of each key, and words that are equal exactly if the keys are."""
    columns = encoded(keys)
    return hash_columns(columns, bits, length=rows), words_of(columns)


def words_of(keys: Arrays) -> list[Words]:
    """Return words that are equal exactly if the keys are."""
    return [word for key in keys for word in key_words(key)]


def take(arrays: Arrays, rows: Indices) -> Arrays:
    """Return the given rows of each array."""
    indices = row_numbers(rows)
    return [array.take(indices) for array in arrays]


def picked(table: pa.Table, groups: Segments) -> tuple[pa.Table, Segments]:
    """Return only the rows of the groups, and the groups as ranges of these rows."""
    ends = np.cumsum(groups.sizes)
    return table.take(groups.rows()), Segments(None, ends - groups.sizes, ends)
