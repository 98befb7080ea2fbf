"""The inputs of a join as its kernels see them: the columns of a port, and its sorted rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.arrow import AnyArray, AnyChunked
from penstock.kernels.arrays import Flags, Indices, Times, Words
from penstock.kernels.hash import hash_columns
from penstock.operators.arrange import arranged_schema, sorted_with
from penstock.operators.protocol import Stored
from penstock.progress.mark import MAX_TIME, MIN_TIME
from penstock.state.runs import HASH, TIME
from penstock.types import as_array, time_array, time_values


@dataclass(frozen=True)
class StateRows:
    """Contiguous state rows, sorted by hash and time. `least` and `largest` bound the times."""

    rows: pa.RecordBatch
    hashes: Words
    times: Times
    least: int = MIN_TIME
    largest: int = MAX_TIME

    def __len__(self) -> int:
        return len(self.hashes)

    def take(self, rows: Indices | Flags) -> StateRows:
        """Return some of the rows, by ascending numbers or by flags. Does not copy if these are all rows."""
        indices = np.flatnonzero(rows) if rows.dtype == np.bool_ else rows.astype(np.int64, copy=False)
        return self if len(indices) == len(self) else as_state_rows(self.rows.take(indices))


def state_rows_of(stored: Sequence[Stored]) -> Iterator[StateRows]:
    """Yield stored tables without a copy, one value per record batch."""
    for table in stored:
        for batch in table.rows.to_batches():
            if batch.num_rows:
                yield as_state_rows(batch, table.least, table.largest)


def as_state_rows(rows: pa.RecordBatch, least: int = MIN_TIME, largest: int = MAX_TIME) -> StateRows:
    """Wrap a record batch of state rows."""
    return StateRows(rows, rows.column(0).to_numpy(), rows.column(1).to_numpy(), least, largest)


def fresh_state_rows(table: pa.Table) -> StateRows:
    """Wrap a table of state rows, with exact bounds of its times."""
    columns = [as_array(column) for column in table.columns]
    found = as_state_rows(pa.RecordBatch.from_arrays(columns, schema=table.schema))
    if not len(found):
        return found
    return StateRows(found.rows, found.hashes, found.times, int(found.times.min()), int(found.times.max()))


@dataclass(frozen=True)
class Port:
    """The columns of an input: keys, time, and the values that conditions or results need.

    The time is stored as #time only, unless it is part of the key.
    """

    number: int
    schema: pa.Schema
    keys: tuple[str, ...]
    time: str
    values: tuple[str, ...]
    hash_bits: int

    @property
    def stored(self) -> tuple[str, ...]:
        """Return the stored columns, without #hash and #time."""
        wanted = {*self.keys, *self.values} - ({self.time} - set(self.keys))
        return tuple(name for name in self.schema.names if name in wanted)

    @property
    def state_schema(self) -> pa.Schema:
        """Return the schema of state rows."""
        return arranged_schema(pa.schema([self.schema.field(name) for name in self.stored]))

    def prepare(self, rows: pa.Table) -> pa.Table:
        """Convert rows to sorted state rows."""
        keys = [as_array(rows.column(key)) for key in self.keys]
        hashes = hash_columns(keys, self.hash_bits)
        return sorted_with(hashes, time_values(rows.column(self.time)), rows.select(self.stored)).cast(
            self.state_schema
        )

    def prepare_arranged(self, arranged: pa.Table) -> pa.Table:
        """Convert arranged rows to state rows."""
        return arranged.select([HASH, TIME, *self.stored]).cast(self.state_schema)

    def key_columns(self, piece: StateRows) -> tuple[AnyArray, ...]:
        """Return the key columns of a piece."""
        return tuple(piece.rows.column(key) for key in self.keys)

    def column(self, piece: StateRows, name: str, rows: Indices | None = None) -> AnyArray:
        """Return a column of a piece, of all rows or of some. Restores the time column from #time."""
        if name in piece.rows.schema.names:
            column = piece.rows.column(name)
            return column if rows is None else column.take(rows)
        times = piece.times if rows is None else piece.times[rows]
        return time_array(times, self.schema.field(name).type)


def with_keys(table: pa.Table, keys: Sequence[str]) -> pa.Table:
    """Return the rows without a null in the key."""
    for key in keys:
        if table.column(key).null_count:
            table = table.filter(table.column(key).is_valid())
    return table


def without_keys(table: pa.Table, keys: Sequence[str]) -> pa.Table:
    """Return the rows with a null in the key."""
    if not any(table.column(key).null_count for key in keys):
        return table.slice(0, 0)
    missing: AnyArray | AnyChunked = table.column(keys[0]).is_null()
    for key in keys[1:]:
        missing = pc.or_(missing, table.column(key).is_null())
    return table.filter(missing)
