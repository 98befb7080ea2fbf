"""Keys and measures of groups that are not panes of a window, shared by sessions and group-bys over equal times.

The state rows of such groups contain key columns and partials; the measures provide the kernels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from penstock.arrow import AnyArray, AnyField, row_numbers
from penstock.errors import QueryError
from penstock.kernels.arrays import Indices, Times, Words
from penstock.kernels.hash import as_array, canonical_keys, check_key_type, hash_columns, is_text, key_words
from penstock.kernels.segments import Segments
from penstock.operators.aggregates.measures import Measure, PartialColumns, partials_of
from penstock.type_names import sql_type
from penstock.types import is_time_type, require_column

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
