"""The windowed group-by: rows become partials per key and pane, partials become results per key and window.

    rows -> prepare -> combine (any number of times, in any grouping) -> close

A row is processed once, in its pane, however many windows contain it. Tables of partials are sorted by (#hash, #time),
so partitions are slices of them. Results do not depend on the order of rows or tables.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.arrow import AnyArray
from penstock.errors import QueryError
from penstock.kernels.arrays import Times, Words
from penstock.kernels.hash import canonical_keys, check_key_type, hash_columns, hashes_identify, is_text, key_words
from penstock.kernels.order import GroupedRows, group, group_by_key, group_by_pane
from penstock.kernels.segments import Segments, one_by_one
from penstock.operators.aggregates.measures import Measure, PartialColumns, partials_of, take
from penstock.operators.arrange import arranged, in_blocks, times_of
from penstock.operators.protocol import (
    UNCOUNTED,
    ClosesWindows,
    KeepsTimesApart,
    OnePort,
    Orderable,
    OutputCounts,
    Portion,
    Stored,
    WorkResult,
)
from penstock.operators.window.lateness import MISSED, MissedCounts, of_same_hash, windows_of_each, with_missed
from penstock.operators.window.windows import Window, apart, chosen, closing_starts, in_some_window, windows_over
from penstock.progress.mark import MAX_TIME, MIN_TIME, Mark, Marks, at, saturate
from penstock.state.hash_ranges import HashOrder, by_hash
from penstock.state.runs import HASH, TIME
from penstock.type_names import sql_type
from penstock.types import as_array, is_time_type, require_column, time_array, time_values

__all__ = ["Measure", "WindowAggregate"]


@dataclass(frozen=True)
class WindowAggregate(OnePort, KeepsTimesApart, Orderable, ClosesWindows):
    """A windowed group-by over rows of `input_schema`.

    Times must not be null and must lie between `window.earliest` and `window.latest`. `takes_late`: rows may have a
    column MISSED with the number of their windows that are already closed; partials with different values of it are
    kept separate. `hash_bits` below 64 makes hashes collide, for tests.
    """

    keys: tuple[str, ...]
    window: Window
    measures: tuple[Measure, ...]
    input_schema: pa.Schema
    hash_bits: int = 64
    takes_late: bool = False

    def __post_init__(self) -> None:
        for key in self.keys:
            check_key_type(require_column(self.input_schema, key, "the keys").type, key)
        time = require_column(self.input_schema, self.window.time, "the window")
        if not is_time_type(time.type):
            hint = "use a TIMESTAMP or a BIGINT column"
            raise QueryError(f"a window cannot be over `{time.name}`", detail=sql_type(time.type), hint=hint)
        for measure in self.measures:
            measure.check(self.input_schema)
        self._check_names()

    def _check_names(self) -> None:
        """Raise QueryError if two columns of the result have one name."""
        names = self.result_schema.names
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise QueryError(f"two columns of the result are called `{twice[0]}`", hint="give one of them another name")

    @property
    def partial_schema(self) -> pa.Schema:
        """Return the schema of partials: one row per key and pane, sorted by #hash and #time, the start of the pane."""
        keys = [pa.field(f"key.{i}", self.input_schema.field(key).type) for i, key in enumerate(self.keys)]
        parts = [pa.field(name, type_) for p in self._plan.values() for name, type_ in p.types.items()]
        missed = [pa.field(MISSED, pa.int32())] if self.takes_late else []
        return pa.schema([pa.field(HASH, pa.uint64()), pa.field(TIME, pa.int64()), *keys, *parts, *missed])

    @property
    def result_schema(self) -> pa.Schema:
        time = self.input_schema.field(self.window.time).type
        return pa.schema(
            [
                *(pa.field(key, self.input_schema.field(key).type) for key in self.keys),
                pa.field("window_start", time),
                pa.field("window_end", time),
                *(pa.field(m.name, m.result_type(self.input_schema)) for m in self.measures),
            ]
        )

    @property
    def reach(self) -> int:
        return self.window.size + self.window.slide

    @property
    def output_times(self) -> tuple[str, ...]:
        return ("window_start", "window_end")

    def state_schema(self, port: int) -> pa.Schema:
        return self.partial_schema

    def arrange(self, port: int, rows: pa.Table) -> pa.Table:
        rows = with_missed(rows) if self.takes_late else rows
        return arranged(rows, self.keys, self.window.time, self.hash_bits)

    def prepare_arranged(self, port: int, arranged: pa.Table) -> pa.Table:
        time = time_array(times_of(arranged), self.input_schema.field(self.window.time).type)
        rows = arranged.drop_columns([HASH, TIME])
        return self.prepare(port, rows.set_column(rows.column_names.index(self.window.time), self.window.time, time))

    def prepare(self, port: int, rows: pa.Table) -> pa.Table:
        """Aggregate rows to partials."""
        return self.prepare_by(by_hash, port, rows)

    def prepare_by(self, order: HashOrder, port: int, rows: pa.Table) -> pa.Table:
        """Aggregate rows to partials, in the given order."""
        times = time_values(rows.column(self.window.time))
        if self.window.slide > self.window.size:
            inside = in_some_window(self.window, times)
            rows, times = rows.filter(pa.array(inside)), times[inside]
        if not len(times):
            return self.partial_schema.empty_table()
        keys = canonical_keys([rows.column(key) for key in self.keys])
        encoded = [key.dictionary_encode() if is_text(key.type) else key for key in keys]
        hashes = hash_columns(encoded, self.hash_bits, length=len(times))
        panes, missed = self.window.pane_starts(times), self._missed(rows)
        groups = group(order(hashes), panes, self.window.pane, [*self._words(encoded), *_in_words(missed)])
        columns = {name: None if name is None else as_array(rows.column(name)) for _, name in self._plan}
        parts = [p.kernel.of_rows(columns[p.column], times, groups) for p in self._plan.values()]
        return self._partial_table(order, hashes, panes, keys, groups, parts, missed)

    def combine(self, port: int, tables: Sequence[pa.Table]) -> pa.Table:
        """Merge sorted tables of partials into one."""
        return self.combine_by(by_hash, port, tables)

    def combine_by(self, order: HashOrder, port: int, tables: Sequence[pa.Table]) -> pa.Table:
        """Merge tables of partials that are sorted in the given order into one."""
        filled = [table for table in tables if table.num_rows]
        if not filled:
            return self.partial_schema.empty_table()
        if len(filled) == 1:
            return filled[0]
        table = pa.concat_tables(filled)
        hashes, panes, keys = self._split(table)
        missed = self._missed(table)
        groups = group_by_pane(order(hashes), panes, self.window.pane, [*self._words(keys), *_in_words(missed)])
        if groups.order is None and len(groups) == table.num_rows:
            return table
        parts = [p.kernel.merge(p.of(table), groups) for p in self._plan.values()]
        return self._partial_table(order, hashes, panes, keys, groups, parts, missed)

    def close(self, partials: pa.Table, after: Mark, upto: Mark) -> pa.Table:
        """Return the results of all windows that hold a row and end in (after, upto]; if `upto` has ended, of all that
        end above `after`. `partials` must be combined."""
        return pa.concat_tables([self.result_schema.empty_table(), *self.closing(partials, after, upto)])

    def closing(
        self, partials: pa.Table, after: Mark, upto: Mark, counts: OutputCounts = UNCOUNTED
    ) -> Iterator[pa.Table]:
        """Yield the results of `close` in tables of bounded size, because a row may be in millions of windows."""
        starts = closing_starts(self.window, after, upto)
        if starts is None:
            return
        table = _between(partials, starts[0], starts[1] + self.window.size)
        if (missed := self._missed(table)) is None:
            yield from self._close_evenly(table, starts, counts)
            return
        some_late = of_same_hash(self._split(table)[0], missed > 0)
        yield from self._close_evenly(chosen(table, ~some_late), starts, counts)
        yield from self._close_one_by_one(chosen(table, some_late), starts, counts)

    def _close_evenly(self, table: pa.Table, starts: tuple[int, int], counts: OutputCounts) -> Iterator[pa.Table]:
        """Close the windows of partials that belong to all windows of their panes."""
        if not table.num_rows:
            return
        hashes, panes, keys = self._split(table)
        if self.window.size == self.window.slide:  # each partial is a whole window
            counts.add(hashes)
            yield self._result_table(table, keys, one_by_one(table.num_rows), panes)
            return
        order, heads = group_by_key(hashes, panes, self._words(keys))
        arranged = panes if order is None else panes[order]
        for block in windows_over(self.window, arranged, heads, order, starts):
            part = table if block.rows is None else table.take(block.rows)
            hashes, _, keys = self._split(part)
            counts.add(hashes, block.segments.lo)  # in the order of the segments, too: it sorts by hash first
            yield self._result_table(part, keys, block.segments, block.starts)

    def _close_one_by_one(self, table: pa.Table, starts: tuple[int, int], counts: OutputCounts) -> Iterator[pa.Table]:
        """Close the windows of partials that may have missed some windows, by repeating each partial for every window
        it is in."""
        for rows, window_starts in windows_of_each(self.window, self._split(table)[1], self._missed(table), starts):
            part = table.take(rows)
            hashes, _, keys = self._split(part)
            windows = group_by_pane(hashes, window_starts, self.window.pane, self._words(keys))
            counts.add(windows.hashes)
            yield self._result_table(part, keys, windows, window_starts[windows.first_rows])

    def due(self, after: Marks, upto: Marks, least: tuple[int | None, ...]) -> bool:
        if least[0] is None or after[0].ended:
            return False
        return upto[0].has_reached(self.first_end(after[0], least[0]))

    @property
    def period(self) -> int:
        return self.window.slide

    def first_end(self, after: Mark, least: int) -> int:
        return self.window.first_start_ending_after(max(after.at, least)) + self.window.size

    def work(self, portion: Portion, counts: OutputCounts = UNCOUNTED) -> WorkResult:
        (after,), (upto,) = portion.after, portion.upto
        reached = [_below(part, upto) for part in portion.stored[0] if upto.ended or part.least < upto.at]
        closed = (piece for whole in self._whole_windows(reached) for piece in self.closing(whole, after, upto, counts))
        return WorkResult(in_blocks(closed), (self.partial_schema.empty_table(),))

    def _whole_windows(self, parts: Sequence[Stored]) -> list[pa.Table]:
        """Return the partials as tables that can be closed separately, because no window has partials in two of them.
        Earlier tables come first, only for the convenience of people who read the results."""
        if self.window.size != self.window.slide:
            return [self.combine(0, [part.rows for part in parts])]
        alone, shared = apart(parts)
        tables = [*alone, *([self.combine(0, shared)] if shared else [])]
        return sorted(tables, key=lambda table: times_of(table).min()) or [self.partial_schema.empty_table()]

    def expired_below(self, port: int, marks: Marks) -> int:
        """Return the #time below which partials are in no window that ends above the mark."""
        (mark,) = marks
        return MAX_TIME if mark.ended else saturate(self.window.first_start_ending_after(mark.at))

    def span(self, port: int) -> int:
        return self.window.size

    def output_marks(self, marks: Marks) -> Marks:
        """Return the marks on `window_start` and `window_end` once all windows that end at or below the mark are
        closed."""
        (mark,) = marks
        if mark.ended:
            return (mark, mark)
        start = at(self.window.first_start_ending_after(mark.at))
        return (start, start.shift(self.window.size))

    @property
    def _plan(self) -> dict[tuple[str, str | None], PartialColumns]:
        """Return the partials that the measures need, by kind and column."""
        return partials_of(self.measures, self.input_schema)

    def _split(self, table: pa.Table) -> tuple[Words, Times, list[AnyArray]]:
        """Return the hashes, panes and keys of a table of partials."""
        hashes, panes, *keys = (as_array(table.column(i)) for i in range(2 + len(self.keys)))
        return hashes.to_numpy(), panes.to_numpy(), keys

    def _missed(self, table: pa.Table) -> MissedCounts | None:
        """Return the number of windows that each row or partial has missed; None if none has missed any."""
        if not self.takes_late or MISSED not in table.column_names:
            return None
        missed: MissedCounts = as_array(table.column(MISSED)).to_numpy()
        return missed if missed.any() else None

    def _words(self, keys: list[AnyArray]) -> list[Words]:
        """Return the words to compare beside the hashes to distinguish keys; none if the hashes suffice."""
        return [] if hashes_identify(keys, self.hash_bits) else [word for key in keys for word in key_words(key)]

    def _partial_table(
        self,
        order: HashOrder,
        hashes: Words,
        panes: Times,
        keys: list[AnyArray],
        groups: Segments,
        parts: list[list[AnyArray]],
        missed: MissedCounts | None,
    ) -> pa.Table:
        """Build a table of partials, one row per group."""
        heads, known = groups.first_rows, groups if isinstance(groups, GroupedRows) else None
        columns = [
            pa.array(known.hashes if known is not None and order is by_hash else hashes[heads]),
            pa.array(known.panes if known is not None else panes[heads]),
            *take(keys, heads),
        ]
        columns += [part for group in parts for part in group]
        if self.takes_late:
            columns.append(pa.array(np.zeros(len(heads), np.int32) if missed is None else missed[heads]))
        return pa.table(columns, schema=self.partial_schema)

    def _result_table(self, table: pa.Table, keys: list[AnyArray], windows: Segments, starts: Times) -> pa.Table:
        """Build the result rows of windows with the given starts."""
        if not len(windows):
            return self.result_schema.empty_table()
        time = self.input_schema.field(self.window.time).type
        finals = {which: p.kernel.final(p.of(table), windows) for which, p in self._plan.items()}
        measures = [m.result([f for p in m.partials for f in finals[p]], self.input_schema) for m in self.measures]
        borders = [time_array(starts, time), time_array(starts + self.window.size, time)]
        keys = keys if windows.are_the_rows(table.num_rows) else take(keys, windows.first_rows)
        return pa.table([*keys, *borders, *measures], schema=self.result_schema)


def _below(part: Stored, upto: Mark) -> Stored:
    """Return the partials that may be in windows that end at or below `upto`."""
    if upto.ended or part.largest < upto.at:
        return part
    return Stored(_between(part.rows, MIN_TIME, upto.at), part.least, upto.at - 1)


def _between(partials: pa.Table, least: int, below: int) -> pa.Table:
    """Return the partials with `least` <= #time < `below`; the same table if these are all."""
    times = as_array(partials.column(TIME)).to_numpy()
    inside = (times >= least) & (times < below)
    return partials if inside.all() else chosen(partials, inside)


def _in_words(missed: MissedCounts | None) -> list[Words]:
    """Return the words that distinguish partials of one key and pane by the number of missed windows."""
    return [] if missed is None else [missed.astype(np.uint64)]
