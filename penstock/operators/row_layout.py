"""Whole input rows in state: their layout, and the base of operators that emit rows unchanged."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from penstock.arrow import AnyArray, AnyChunked
from penstock.kernels.arrays import Times, Words
from penstock.operators.arrange import times_of
from penstock.operators.completed import completed_below
from penstock.operators.protocol import OnePort
from penstock.progress.mark import Marks
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


class WholeRows(OnePort):
    """Base of operators that emit input rows unchanged and drop them once the mark passes their time."""

    time: str
    input_schema: pa.Schema

    @property
    def result_schema(self) -> pa.Schema:
        return self.input_schema

    @property
    def reach(self) -> int:
        return 0

    @property
    def output_times(self) -> tuple[str, ...]:
        return (self.time,)

    def state_schema(self, port: int) -> pa.Schema:
        return self._layout.state_schema

    def expired_below(self, port: int, marks: Marks) -> int:
        return completed_below(marks[0])

    def span(self, port: int) -> int:
        return 1

    def output_marks(self, marks: Marks) -> Marks:
        return marks

    @property
    def _layout(self) -> RowLayout:
        return RowLayout(self.input_schema, self.time)
