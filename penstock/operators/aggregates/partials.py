"""Keys and measures of groups that are not panes of a window: what sessions and moments have in common.

The state rows of such groups have key columns and partials among others; the kernels are those of the measures.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from penstock.errors import QueryError
from penstock.kernels.arrays import Indices, Times, Words
from penstock.kernels.hash import as_array, canonical_keys, check_key_type, hash_columns, is_text, key_words
from penstock.kernels.segments import Segments
from penstock.operators.aggregates.measures import Measure, PartialColumns, partials_of
from penstock.types import is_time_type, require_column, sql_type

Arrays: TypeAlias = list[pa.Array]


@dataclass(frozen=True)
class GroupPartials:
    """The keys and measures of a group-by over rows of `input_schema`. Key n is called `key.n` in state rows, so that
    no name of a user meets one of the engine."""

    keys: tuple[str, ...]
    measures: tuple[Measure, ...]
    input_schema: pa.Schema

    def check(self, result_schema_names: Sequence[str]) -> None:
        for key in self.keys:
            check_key_type(require_column(self.input_schema, key, "the keys").type, key)
        for measure in self.measures:
            measure.check(self.input_schema)
        if twice := sorted({name for name in result_schema_names if list(result_schema_names).count(name) > 1}):
            raise QueryError(f"two columns of the result are called `{twice[0]}`", hint="give one of them another name")

    @property
    def key_fields(self) -> list[pa.Field]:
        return [self.input_schema.field(key) for key in self.keys]

    @property
    def stored_key_fields(self) -> list[pa.Field]:
        return [field.with_name(f"key.{i}") for i, field in enumerate(self.key_fields)]

    @property
    def stored_part_fields(self) -> list[pa.Field]:
        return [pa.field(name, type_) for p in self._plan.values() for name, type_ in p.types.items()]

    @property
    def measure_fields(self) -> list[pa.Field]:
        return [pa.field(m.name, m.result_type(self.input_schema)) for m in self.measures]

    def keys_of_rows(self, rows: pa.Table) -> Arrays:
        return canonical_keys([rows.column(key) for key in self.keys])

    def stored_keys(self, table: pa.Table) -> Arrays:
        return [as_array(table.column(field.name)) for field in self.stored_key_fields]

    def of_rows(self, rows: pa.Table, times: Times, groups: Segments) -> Arrays:
        """The partials of each group of rows."""
        columns = {name: None if name is None else as_array(rows.column(name)) for _, name in self._plan}
        parts = (p.kernel.of_rows(columns[p.column], times, groups) for p in self._plan.values())
        return [array for part in parts for array in part]

    def merge(self, table: pa.Table, groups: Segments) -> Arrays:
        """The partials of each group of state rows; the groups follow one another without gap or overlap."""
        return [array for p in self._plan.values() for array in p.kernel.merge(p.of(table), groups)]

    def results(self, table: pa.Table, groups: Segments) -> Arrays:
        """The measures of each group of state rows."""
        finals = {which: p.kernel.final(p.of(table), groups) for which, p in self._plan.items()}
        return [m.result([f for p in m.partials for f in finals[p]], self.input_schema) for m in self.measures]

    @property
    def _plan(self) -> dict[tuple[str, str | None], PartialColumns]:
        return partials_of(self.measures, self.input_schema)


def check_time(schema: pa.Schema, name: str, context: str) -> None:
    """An error if rows of this schema have no such time."""
    field = require_column(schema, name, context)
    if not is_time_type(field.type):
        hint = "use a TIMESTAMP or a BIGINT column"
        raise QueryError(f"{context} cannot be over `{name}`", detail=f"its type is {sql_type(field.type)}", hint=hint)


def encoded(keys: Arrays) -> Arrays:
    """Text as dictionaries, so that each text is hashed and compared once."""
    return [key.dictionary_encode() if is_text(key.type) else key for key in keys]


def hashes_and_words(keys: Arrays, bits: int, rows: int) -> tuple[Words, list[Words]]:
    """The hash of each key, and words that are equal exactly where the keys are."""
    columns = encoded(keys)
    return hash_columns(columns, bits, length=rows), words_of(columns)


def words_of(keys: Arrays) -> list[Words]:
    return [word for key in keys for word in key_words(key)]


def take(arrays: Arrays, rows: Indices) -> Arrays:
    indices = pa.array(rows)
    return [array.take(indices) for array in arrays]


def picked(table: pa.Table, groups: Segments) -> tuple[pa.Table, Segments]:
    """The rows of some groups only, and the groups as ranges of them."""
    ends = np.cumsum(groups.sizes)
    return table.take(pa.array(groups.rows())), Segments(None, ends - groups.sizes, ends)
