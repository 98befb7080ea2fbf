"""The group-by over sessions: rows of a key less than a gap apart.

State rows are fragments of sessions. A fragment is spent once no session that ends at the fragment's own last time
could still be open; runs of spent fragments are dropped. The session of a spent fragment may continue through a later
fragment. The contribution of the spent one is then carried: stored again under the last time of the session.

    invariant, for every key, at the mark up to which work is done: the fragments that are not spent contain each row of
    an open session once, they touch each other, and no future row touches a session that is over

A row below the punctuation of its source is accepted if the session that it alone would form is not over: its time plus
the gap is above the punctuation. It does not join sessions that were over by that punctuation, even if its time is less
than a gap away: such a session is over, whether or not it has been emitted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.arrow import type_in
from penstock.kernels.arrays import Flags, Indices, Times, Words
from penstock.kernels.order import group_by_key, order_by_hash_and_time
from penstock.kernels.segments import Segments
from penstock.operators.aggregates.measures import (
    Arrays,
    GroupPartials,
    Measure,
    check_time,
    hashes_and_words,
    picked,
    take,
    words_of,
)
from penstock.operators.arrange import arranged, hashes_of, order_of, times_of
from penstock.operators.protocol import (
    UNCOUNTED,
    ClosingOperator,
    OnePort,
    OutputCounts,
    Portion,
    Stored,
    WorkResult,
)
from penstock.operators.window.kinds import Session
from penstock.operators.window.lateness import SINCE
from penstock.progress.mark import MAX_TIME, MIN_TIME, Mark, Marks, saturate
from penstock.state.runs import HASH, TIME
from penstock.types import as_array, time_array, time_values

FIRST = "#first"  # the first time of a fragment; #time is its last time
JOINS_BEFORE = "#joins"  # a fragment joins those that end less than a gap before this time, usually its first time


@dataclass(frozen=True)
class SessionBounds:
    """The bounds of sessions or fragments: the first time, the time from which it joins earlier ones, and the last
    time."""

    first: Times
    joins: Times
    last: Times

    def of(self, chosen: Flags) -> SessionBounds:
        """Return the bounds of the sessions flagged in `chosen`."""
        return SessionBounds(self.first[chosen], self.joins[chosen], self.last[chosen])


@dataclass(frozen=True)
class SessionAggregate(OnePort, ClosingOperator):
    """A group-by over sessions of rows of `input_schema`.

    Times must not be null and must be at least `reach` away from the limits of a 64-bit time. `takes_late`: rows may
    have a column SINCE with the punctuation they arrived behind; they do not join sessions that were over by then.
    `hash_bits` below 64 makes hashes collide, for tests.
    """

    keys: tuple[str, ...]
    window: Session
    measures: tuple[Measure, ...]
    input_schema: pa.Schema
    hash_bits: int = 64
    takes_late: bool = False

    def __post_init__(self) -> None:
        check_time(self.input_schema, self.window.time, "a session")
        self._partials.check([*self.keys, "window_start", "window_end", *(m.name for m in self.measures)])

    @property
    def result_schema(self) -> pa.Schema:
        borders = [pa.field(name, self._time_type) for name in ("window_start", "window_end")]
        return pa.schema([*self._partials.key_fields, *borders, *self._partials.measure_fields])

    @property
    def reach(self) -> int:
        return self.window.gap + 1

    @property
    def output_times(self) -> tuple[str, ...]:
        return ("window_end",)

    def state_schema(self, port: int) -> pa.Schema:
        """Return the schema of fragments of sessions. #time is the last time of a fragment."""
        times = [pa.field(HASH, pa.uint64()), pa.field(TIME, pa.int64())]
        first = [pa.field(name, pa.int64()) for name in ((FIRST, JOINS_BEFORE) if self.takes_late else (FIRST,))]
        return pa.schema([*times, *self._partials.stored_key_fields, *first, *self._partials.stored_part_fields])

    def arrange(self, port: int, rows: pa.Table) -> pa.Table:
        if self.takes_late and SINCE not in rows.column_names:
            rows = rows.append_column(SINCE, pa.array(np.full(rows.num_rows, MIN_TIME)))
        return arranged(rows, self.keys, self.window.time, self.hash_bits)

    def prepare_arranged(self, port: int, arranged: pa.Table) -> pa.Table:
        return self._prepared(arranged, times_of(arranged))

    def prepare(self, port: int, rows: pa.Table) -> pa.Table:
        return self._prepared(rows, time_values(rows.column(self.window.time)))

    def _prepared(self, rows: pa.Table, times: Times) -> pa.Table:
        """Aggregate rows to fragments, one per session among these rows."""
        if not rows.num_rows:
            return self.state_schema(0).empty_table()
        keys = self._partials.keys_of_rows(rows)
        hashes, words = hashes_and_words(keys, self.hash_bits, len(times))
        joins = np.maximum(times, rows.column(SINCE).to_numpy()) if SINCE in rows.column_names else times
        groups = group_by_session(hashes, joins, times, words, self.window.gap)
        bounds = SessionBounds(groups.least(times), groups.least(joins), groups.greatest(times))
        return self._fragments(hashes, keys, groups, bounds, self._partials.of_rows(rows, times, groups))

    def combine(self, port: int, tables: Sequence[pa.Table]) -> pa.Table:
        """Merge fragments that touch and are spent at the same time. Others stay separate, because one of them may
        already be counted elsewhere, closed or carried, which only its own last time shows."""
        table = _together(tables, self.state_schema(0))
        groups = cut_where(self._sessions(table), times_of(table) // self._pane)
        if len(groups) == table.num_rows:
            order = order_of(table)
            return table if order is None else table.take(order)
        keys, parts = self._partials.stored_keys(table), self._partials.merge(table, groups)
        return self._fragments(hashes_of(table), keys, groups, self._bounds(table, groups), parts)

    def due(self, after: Marks, upto: Marks, least: tuple[int | None, ...]) -> bool:
        return least[0] is not None and after < upto and upto[0].has_reached(least[0] + self.window.gap)

    def work(self, portion: Portion, counts: OutputCounts = UNCOUNTED) -> WorkResult:
        """Emit the sessions that are over at `upto` but were not at `after`. Carry the fragments that are spent at
        `upto` and belong to sessions that are not over."""
        (after,), (upto,) = portion.after, portion.upto
        table = self._concerned(portion.stored[0], after, upto)
        sessions = self._sessions(table)
        if not len(sessions):
            return WorkResult([], (self.state_schema(0).empty_table(),))
        bounds = self._bounds(table, sessions)
        over = _within(bounds.last, self._over_below(after), self._over_below(upto))
        closed = _some(sessions, over)
        counts.add(hashes_of(table)[closed.first_rows])
        results = self._results(table, closed, bounds.of(over))
        return WorkResult([results], (self._carried(table, sessions, bounds, upto),))

    def expired_below(self, port: int, marks: Marks) -> int:
        """Return the #time below which fragments are spent. It is a multiple of the pane, so fragments of a pane are
        spent together."""
        (mark,) = marks
        return MAX_TIME if mark.ended else saturate(self._over_below(mark) // self._pane * self._pane)

    def span(self, port: int) -> int:
        return self.window.gap

    def output_marks(self, marks: Marks) -> Marks:
        """Return the mark on `window_end`: a future session ends above the input mark."""
        return (marks[0].shift(1),)

    @property
    def _pane(self) -> int:
        """Return the width of a pane. Fragments whose last times are in one pane are spent together, so `combine` may
        always merge them. A wider pane gives fewer fragments that live longer."""
        return max(1, self.window.gap // 4)

    @property
    def _partials(self) -> GroupPartials:
        return GroupPartials(self.keys, self.measures, self.input_schema)

    @property
    def _time_type(self) -> pa.DataType:
        return type_in(self.input_schema, self.window.time)

    def _over_below(self, mark: Mark) -> int:
        """Return the time below which a session's last time must lie for it to be over at the mark."""
        return MAX_TIME if mark.ended else saturate(mark.at - self.window.gap + 1)

    def _sessions(self, fragments: pa.Table) -> Segments:
        """Group fragments by session."""
        hashes, words = hashes_of(fragments), words_of(self._partials.stored_keys(fragments))
        return group_by_session(hashes, self._joins_of(fragments), times_of(fragments), words, self.window.gap)

    def _joins_of(self, fragments: pa.Table) -> Times:
        """Return the time from which each fragment joins earlier ones."""
        return _times_in(fragments, JOINS_BEFORE if self.takes_late else FIRST)

    def _bounds(self, fragments: pa.Table, groups: Segments) -> SessionBounds:
        """Return the bounds of each group of fragments."""
        first, joins = groups.least(_times_in(fragments, FIRST)), groups.least(self._joins_of(fragments))
        return SessionBounds(first, joins, groups.greatest(times_of(fragments)))

    def _concerned(self, stored: Sequence[Stored], after: Mark, upto: Mark) -> pa.Table:
        """Return the fragments not spent at `after`, of the hashes for which `upto` ends a session or spends a
        fragment."""
        spent, spent_then = (self.expired_below(0, (mark,)) for mark in (after, upto))
        table = _together([part.rows for part in stored if part.largest >= spent], self.state_schema(0))
        times, hashes = times_of(table), hashes_of(table)
        changing = _within(times, self._over_below(after), self._over_below(upto)) | _within(times, spent, spent_then)
        concerned = (times >= spent) & np.isin(hashes, np.unique(hashes[changing]))
        return table.filter(pa.array(concerned))

    def _carried(self, table: pa.Table, sessions: Segments, bounds: SessionBounds, upto: Mark) -> pa.Table:
        """Merge the spent fragments of each session that is not over into one fragment with the bounds of the whole
        session."""
        spent = sessions.add((times_of(table) < self.expired_below(0, (upto,))).astype(np.int64))
        chosen = (bounds.last >= self._over_below(upto)) & (spent > 0)
        if not chosen.any():
            return self.state_schema(0).empty_table()
        # The fragments of a session are in order of their last times, so the spent ones come first.
        lo = sessions.lo[chosen]
        part, groups = picked(table, Segments(sessions.order, lo, lo + spent[chosen]))
        keys, parts = self._partials.stored_keys(part), self._partials.merge(part, groups)
        return self._fragments(hashes_of(part), keys, groups, bounds.of(chosen), parts)

    def _fragments(
        self, hashes: Words, keys: Arrays, groups: Segments, bounds: SessionBounds, parts: Arrays
    ) -> pa.Table:
        """Build sorted fragments, one per group."""
        heads = groups.first_rows
        first = [pa.array(times) for times in ((bounds.first, bounds.joins) if self.takes_late else (bounds.first,))]
        columns = [pa.array(hashes[heads]), pa.array(bounds.last), *take(keys, heads), *first, *parts]
        table = pa.table(columns, schema=self.state_schema(0))
        order = order_of(table)
        return table if order is None else table.take(order)

    def _results(self, table: pa.Table, sessions: Segments, bounds: SessionBounds) -> pa.Table:
        """Return one result row per session."""
        if not len(sessions):
            return self.result_schema.empty_table()
        part, groups = picked(table, sessions)
        borders = [time_array(times, self._time_type) for times in (bounds.first, bounds.last + self.window.gap)]
        keys = take(self._partials.stored_keys(part), groups.first_rows)
        return pa.table([*keys, *borders, *self._partials.results(part, groups)], schema=self.result_schema)


def _together(tables: Sequence[pa.Table], schema: pa.Schema) -> pa.Table:
    """Concatenate tables, avoiding a copy of a single one."""
    filled = [table for table in tables if table.num_rows]
    if not filled:
        return schema.empty_table()
    return filled[0] if len(filled) == 1 else pa.concat_tables(filled).combine_chunks()


def _times_in(fragments: pa.Table, column: str) -> Times:
    """Return a column of times as an array."""
    return np.asarray(as_array(fragments.column(column)).to_numpy(), dtype=np.int64)


def _within(times: Times, least: int, below: int) -> Flags:
    """Return flags of the times with `least` <= time < `below`."""
    return (times >= least) & (times < below)


def _some(groups: Segments, chosen: Flags) -> Segments:
    """Return the flagged groups."""
    return Segments(groups.order, groups.lo[chosen], groups.hi[chosen])


def group_by_session(hashes: Words, firsts: Times, lasts: Times, keys: Sequence[Words], gap: int) -> Segments:
    """Group intervals of time, from `firsts` to `lasts`, by session, ordered by hash, key and last time. Intervals of a
    key are in one session if they overlap or are less than `gap` apart, directly or through others."""
    order, heads = _order_by_key_and_time(hashes, lasts, keys)
    if order is not None:
        firsts, lasts = firsts[order], lasts[order]

    # A session begins at position n exactly if the n intervals that begin earliest all end a gap or more before the
    # next one begins. So sort the beginnings and the ends separately and compare them position by position.
    begins = _sorted_within(firsts, heads)
    heads[1:] |= begins[1:] >= lasts[:-1] + gap
    return _segments(order, heads)


def cut_where(groups: Segments, values: Times) -> Segments:
    """Cut the groups at each change of a value, taken in the order of the groups."""
    ordered = values if groups.order is None else values[groups.order]
    heads = np.ones(len(ordered), dtype=np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=heads[1:])
    heads[groups.lo] = True
    return _segments(groups.order, heads)


def _order_by_key_and_time(hashes: Words, times: Times, keys: Sequence[Words]) -> tuple[Indices | None, Flags]:
    """Return the order (None: unchanged) by hash, key and time, and flags of the rows that begin a key in it."""
    order, ordered = order_by_hash_and_time(hashes, times)
    if order is not None:
        times, keys = times[order], [words[order] for words in keys]
    again, heads = group_by_key(ordered, times, keys)
    if again is None:
        return order, heads
    return again if order is None else order[again], heads


def _sorted_within(values: Times, heads: Flags) -> Times:
    """Sort the values within each key."""
    if np.all((values[1:] >= values[:-1]) | heads[1:]):
        return values
    return values[np.lexsort((values, np.cumsum(heads)))]


def _segments(order: Indices | None, heads: Flags) -> Segments:
    """Return the groups that begin at the flagged positions."""
    lo = np.flatnonzero(heads)
    return Segments(order, lo, np.append(lo[1:], len(heads))[: len(lo)])
