"""The layout of whole input rows in state, for operators that emit rows unchanged."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from penstock.arrow import AnyArray, AnyChunked
from penstock.kernels.arrays import Times, Words
from penstock.operators.arrange import times_of
from penstock.state.runs import HASH, TIME
from penstock.types import time_array


@dataclass(frozen=True)
class RowLayout:
    """The columns of state rows: #hash, #time, and the columns of `schema`, named by position so that users' names
    cannot collide. The column `time` is omitted, because it equals #time (None: #time is not a column, and all columns
    are stored)."""

    schema: pa.Schema
    time: str | None

    @property
    def state_schema(self) -> pa.Schema:
        """Return the schema of state rows."""
        kept = [pa.field(f"column.{i}", self.schema.field(name).type) for i, name in enumerate(self._kept)]
        return pa.schema([pa.field(HASH, pa.uint64()), pa.field(TIME, pa.int64()), *kept])

    def stored(self, hashes: Words, times: Times, rows: pa.Table) -> pa.Table:
        """Convert rows to state rows, in the same order."""
        columns = [pa.array(hashes), pa.array(times), *(rows.column(name) for name in self._kept)]
        return pa.table(columns, schema=self.state_schema)

    def restored(self, state: pa.Table) -> pa.Table:
        """Convert state rows back to rows of `schema`."""
        columns: dict[str, AnyArray | AnyChunked] = {name: state.column(2 + i) for i, name in enumerate(self._kept)}
        if self.time is not None:
            columns[self.time] = time_array(times_of(state), self.schema.field(self.time).type)
        return pa.table([columns[name] for name in self.schema.names], schema=self.schema)

    @property
    def _kept(self) -> tuple[str, ...]:
        """Return the columns of `schema` that are stored."""
        return tuple(name for name in self.schema.names if name != self.time)
