"""The group-by over equal times: rows with equal keys and equal values in each of several progressing attributes.

Progress on several times is joint: marks (b0, ..., bk) say that no more rows arrive whose times all lie below their
marks. A group whose times all do is complete, possibly long before any of its times is complete by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.errors import QueryError
from penstock.kernels.arrays import Flags, Times, Words
from penstock.kernels.order import group_by_pane
from penstock.kernels.segments import Segments
from penstock.operators.aggregates.measures import (
    Arrays,
    GroupPartials,
    Measure,
    check_time,
    hashes_and_words,
    take,
    words_of,
)
from penstock.operators.arrange import arranged, hashes_of, times_of
from penstock.operators.protocol import UNCOUNTED, ClosingOperator, OutputCounts, Portion, Stored, WorkResult
from penstock.progress.mark import BEGIN, END, Mark, Marks
from penstock.state.runs import HASH, TIME
from penstock.types import as_array, time_array, time_values


@dataclass(frozen=True)
class EqualTimesAggregate(ClosingOperator):
    """A group-by over keys and times of rows of `input_schema`. No time may be null. `latest[j]` bounds the amount by
    which times[j] may exceed times[0] (None: unknown).

    Invariant: at least one time, one bound per time, and latest[0] is 0. The hash covers keys and times, so that the
    groups of one key may live at different sites. `hash_bits` below 64 makes hashes collide, for tests.
    """

    keys: tuple[str, ...]
    times: tuple[str, ...]
    latest: tuple[int | None, ...]
    measures: tuple[Measure, ...]
    input_schema: pa.Schema
    hash_bits: int = 64

    def __post_init__(self) -> None:
        if not self.times or len(self.latest) != len(self.times) or self.latest[0] != 0:
            what = "a group by time needs times, and a bound for each of them"
            raise QueryError(what, detail=f"times {self.times}, bounds {self.latest}", hint="name each time once")
        for time in self.times:
            check_time(self.input_schema, time, "a group by time")
        self._partials.check([*self.keys, *self.times, *(m.name for m in self.measures)])

    @property
    def ports(self) -> int:
        return 1

    @property
    def tracks(self) -> int:
        return len(self.times)

    @property
    def result_schema(self) -> pa.Schema:
        times = [self.input_schema.field(time) for time in self.times]
        return pa.schema([*self._partials.key_fields, *times, *self._partials.measure_fields])

    @property
    def reach(self) -> int:
        return 1

    @property
    def output_times(self) -> tuple[str, ...]:
        return (*self.times, *("" for _ in self.times))

    def state_schema(self, port: int) -> pa.Schema:
        """Return the schema of groups, one row each. #time is the first of its times; the others are separate
        columns."""
        others = [pa.field(name, pa.int64()) for name in self._other_times]
        begin = [pa.field(HASH, pa.uint64()), pa.field(TIME, pa.int64())]
        return pa.schema([*begin, *others, *self._partials.stored_key_fields, *self._partials.stored_part_fields])

    def arrange(self, port: int, rows: pa.Table) -> pa.Table:
        return arranged(rows, (*self.keys, *self.times), self.times[0], self.hash_bits)

    def prepare_arranged(self, port: int, arranged: pa.Table) -> pa.Table:
        return self._prepared(arranged, times_of(arranged))

    def prepare(self, port: int, rows: pa.Table) -> pa.Table:
        return self._prepared(rows, time_values(rows.column(self.times[0])))

    def _prepared(self, rows: pa.Table, first_times: Times) -> pa.Table:
        """Aggregate rows to one state row per group."""
        if not rows.num_rows:
            return self.state_schema(0).empty_table()
        times = [first_times, *(time_values(rows.column(time)) for time in self.times[1:])]
        keys = self._partials.keys_of_rows(rows)
        hashes, words = hashes_and_words([*keys, *map(pa.array, times)], self.hash_bits, len(first_times))
        groups = group_by_pane(hashes, first_times, 1, words)
        return self._state(hashes, times, keys, groups, self._partials.of_rows(rows, first_times, groups))

    def combine(self, port: int, tables: Sequence[pa.Table]) -> pa.Table:
        filled = [table for table in tables if table.num_rows]
        if not filled:
            return self.state_schema(0).empty_table()
        table = filled[0] if len(filled) == 1 else pa.concat_tables(filled).combine_chunks()
        hashes, times, keys = hashes_of(table), self._stored_times(table), self._partials.stored_keys(table)
        groups = group_by_pane(hashes, times[0], 1, words_of([*keys, *map(pa.array, times[1:])]))
        if groups.order is None and len(groups) == table.num_rows:
            return table
        return self._state(hashes, times, keys, groups, self._partials.merge(table, groups))

    def due(self, after: Marks, upto: Marks, least: tuple[int | None, ...]) -> bool:
        if least[0] is None or after == upto:
            return False
        return upto[0].is_beyond(max(least[0], self.expired_below(0, after)))

    def work(self, portion: Portion, counts: OutputCounts = UNCOUNTED) -> WorkResult:
        """Emit the groups that are complete at `upto` but were not at `after`."""
        after, upto = portion.after, portion.upto
        groups = self.combine(0, [self._completed(part, after, upto) for part in portion.stored[0]])
        counts.add(hashes_of(groups))
        return WorkResult([self._results(groups)], (self.state_schema(0).empty_table(),))

    def expired_below(self, port: int, marks: Marks) -> int:
        """Return the first time below which groups are complete whatever their other times are."""
        return self._first_mark(marks).at

    def span(self, port: int) -> int:
        return max(1, *(bound for bound in self.latest if bound is not None))

    def output_marks(self, marks: Marks) -> Marks:
        """Return the mark on each time by itself, then the joint marks. The other times are bounded only from above,
        relative to the first; so the mark on one of them is unknown until all others have ended."""
        others = (_alone(marks, i) for i in range(1, len(marks)))
        return (self._first_mark(marks), *others, *marks)

    @property
    def _partials(self) -> GroupPartials:
        return GroupPartials(self.keys, self.measures, self.input_schema)

    @property
    def _other_times(self) -> list[str]:
        """Return the names of the state columns of all times but the first."""
        return [f"#time.{i}" for i in range(1, len(self.times))]

    def _first_mark(self, marks: Marks) -> Mark:
        """Return the mark on the first time by itself that the joint marks imply."""
        return min(_first_time_bound(mark, latest) for mark, latest in zip(marks, self.latest, strict=True))

    def _stored_times(self, table: pa.Table) -> list[Times]:
        """Return the times of state rows, one array per time."""
        return [as_array(table.column(name)).to_numpy() for name in (TIME, *self._other_times)]

    def _completed(self, part: Stored, after: Marks, upto: Marks) -> pa.Table:
        """Return the rows of a slice that are complete at `upto` but were not at `after`."""
        if part.largest < self.expired_below(0, after) or not upto[0].is_beyond(part.least):
            return self.state_schema(0).empty_table()
        times = self._stored_times(part.rows)
        chosen = _complete(times, upto) & ~_complete(times, after)
        return part.rows.filter(pa.array(chosen))

    def _state(self, hashes: Words, times: list[Times], keys: Arrays, groups: Segments, parts: Arrays) -> pa.Table:
        """Build state rows from the first row and the partials of each group."""
        heads = groups.first_rows
        columns = [pa.array(hashes[heads]), *(pa.array(column[heads]) for column in times), *take(keys, heads)]
        return pa.table([*columns, *parts], schema=self.state_schema(0))

    def _results(self, groups: pa.Table) -> pa.Table:
        """Return one result row per group."""
        if not groups.num_rows:
            return self.result_schema.empty_table()
        places = np.arange(groups.num_rows)
        types = [self.input_schema.field(time).type for time in self.times]
        times = [time_array(*pair) for pair in zip(self._stored_times(groups), types, strict=True)]
        measures = self._partials.results(groups, Segments(None, places, places + 1))
        return pa.table([*self._partials.stored_keys(groups), *times, *measures], schema=self.result_schema)


def _complete(times: Sequence[Times], marks: Marks) -> Flags:
    """Return flags of the groups that can have no more rows."""
    complete = np.ones(len(times[0]), dtype=np.bool_)
    for column, mark in zip(times, marks, strict=True):
        if not mark.ended:
            complete &= column < mark.at
    return complete


def _first_time_bound(mark: Mark, latest: int | None) -> Mark:
    """Return the mark on the first time implied by the mark of a time that exceeds it by at most `latest`."""
    if latest is None:
        return END if mark.ended else BEGIN
    return mark.shift(-latest)


def _alone(marks: Marks, i: int) -> Mark:
    """Return the mark of time i by itself: its joint mark once all others have ended."""
    return marks[i] if all(mark.ended for j, mark in enumerate(marks) if j != i) else BEGIN
