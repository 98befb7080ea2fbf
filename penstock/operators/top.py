"""Top-n: the first n rows in some order of each key and time, emitted once all rows of that time have arrived."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.arrow import AnyField
from penstock.errors import QueryError
from penstock.kernels.arrays import Flags, Indices, Times, Words
from penstock.kernels.hash import canonical_keys, check_key_type, hash_columns, key_words
from penstock.kernels.order import group_by_pane
from penstock.kernels.segments import Segments
from penstock.operators.arrange import hashes_of, sorted_with, times_of
from penstock.operators.completed import completed, completed_below, completes
from penstock.operators.protocol import UNCOUNTED, ClosingOperator, OnePort, OutputCounts, Portion, WorkResult
from penstock.operators.row_layout import RowLayout
from penstock.operators.sort_words import is_sortable, order_by_words, sort_words
from penstock.progress.mark import BEGIN, END, Marks
from penstock.type_names import is_nested, sql_type
from penstock.types import as_array, require_column, time_values

WordsOf = Callable[[Indices], list[Words]]  # returns the sort words of some rows, the most significant first


@dataclass(frozen=True)
class OrderColumn:
    """A column of the ORDER BY. NaN is the largest number; text is ordered by its bytes."""

    column: str
    descending: bool
    nulls_first: bool


@dataclass(frozen=True)
class TopRows(OnePort, ClosingOperator):
    """Emits the first `n` rows in `order` among the rows of `input_schema` with equal `keys` and `time` (None: equal
    keys).

    Ties are broken by the values of `columns`, ascending, nulls last. The result has `columns`, followed by the row
    number from 1 if `number` names a column for it. Negative zero becomes zero, so that rows that compare equal are
    identical. Invariant: n > 0. `hash_bits` below 64 makes hashes collide, for tests.
    """

    keys: tuple[str, ...]
    time: str | None
    order: tuple[OrderColumn, ...]
    n: int
    number: str | None
    columns: tuple[str, ...]
    input_schema: pa.Schema
    hash_bits: int = 64

    def __post_init__(self) -> None:
        if self.n <= 0:
            raise QueryError("a limit must be above zero", detail=f"it is {self.n}", hint="use 1 or more")
        for name in self._needed:
            _check_sortable(require_column(self.input_schema, name, "the limit"))
        for order in self.order:
            _check_flat(self.input_schema.field(order.column))
        for key in self.keys:
            check_key_type(self.input_schema.field(key).type, key)
        if self.number in self.columns:
            hint = "give one of them another name"
            raise QueryError(f"two columns of the result are called `{self.number}`", hint=hint)

    @property
    def result_schema(self) -> pa.Schema:
        number = [] if self.number is None else [pa.field(self.number, pa.int64())]
        return pa.schema([*(self.input_schema.field(name) for name in self.columns), *number])

    @property
    def reach(self) -> int:
        return 0

    @property
    def output_times(self) -> tuple[str, ...]:
        return ("" if self.time is None else self.time,)

    def state_schema(self, port: int) -> pa.Schema:
        return self._layout.state_schema

    def prepare(self, port: int, rows: pa.Table) -> pa.Table:
        needed = pa.table(canonical_keys([rows.column(n) for n in self._needed]), schema=self._layout.schema)
        return self._top(self._layout.stored(self._hashes(rows), self._times(rows), needed))

    def arrange(self, port: int, rows: pa.Table) -> pa.Table:
        return sorted_with(self._hashes(rows), self._times(rows), rows)

    def prepare_arranged(self, port: int, arranged: pa.Table) -> pa.Table:
        return self.prepare(port, arranged.select(range(2, arranged.num_columns)))

    def combine(self, port: int, tables: Sequence[pa.Table]) -> pa.Table:
        return self._top(pa.concat_tables([self._layout.state_schema.empty_table(), *tables]))

    def due(self, after: Marks, upto: Marks, least: tuple[int | None, ...]) -> bool:
        complete = self.time is not None or upto[0].ended
        return complete and completes(after[0], upto[0], least[0])

    def work(self, portion: Portion, counts: OutputCounts = UNCOUNTED) -> WorkResult:
        """Emit the top rows of the times that are complete at `upto` but were not at `after`; without a time, at the
        end."""
        after, upto = (self._on_time(marks)[0] for marks in (portion.after, portion.upto))
        held = self.combine(0, completed(portion.stored[0], after, upto))
        counts.add(hashes_of(held))
        results = (self._numbered(held),) if held.num_rows else ()
        return WorkResult(results, (held.slice(0, 0),))

    def expired_below(self, port: int, marks: Marks) -> int:
        return completed_below(self._on_time(marks)[0])

    def span(self, port: int) -> int:
        return 1

    def output_marks(self, marks: Marks) -> Marks:
        return self._on_time(marks)

    def _on_time(self, marks: Marks) -> Marks:
        """Return the marks on #time. Without a time it makes no progress before the end."""
        return marks if self.time is not None else (END if marks[0].ended else BEGIN,)

    @property
    def _needed(self) -> tuple[str, ...]:
        """Return the input columns that the operator reads, each once."""
        timed = () if self.time is None else (self.time,)
        return tuple(dict.fromkeys((*self.columns, *self.keys, *(o.column for o in self.order), *timed)))

    @property
    def _layout(self) -> RowLayout:
        return RowLayout(pa.schema([self.input_schema.field(name) for name in self._needed]), self.time)

    def _hashes(self, rows: pa.Table) -> Words:
        """Return hashes of key and time, which distribute the rows over sites even without keys."""
        names = self.keys if self.time is None else (*self.keys, self.time)
        return hash_columns([as_array(rows.column(n)) for n in names], self.hash_bits, length=rows.num_rows)

    def _times(self, rows: pa.Table) -> Times:
        """Return the times of the rows; zeros without a time."""
        return np.zeros(rows.num_rows, dtype=np.int64) if self.time is None else time_values(rows.column(self.time))

    def _groups(self, state: pa.Table, rows: pa.Table) -> Members:
        """Group state rows by key and time."""
        words = [word for key in self.keys for word in key_words(rows.column(key))]
        return members_of(group_by_pane(hashes_of(state), times_of(state), 1, words))

    def _top(self, state: pa.Table) -> pa.Table:
        """Return the first n rows of each group, sorted by hash and time. Breaks ties only among rows that the order
        leaves equal."""
        rows = self._layout.restored(state)
        top = first_rows(self._groups(state, rows), self.n, lambda some: self._order_words(rows, some), ties=True)
        top = first_rows(top, self.n, lambda some: self._all_words(rows, some), ties=False)
        return state if _as_it_stands(top.rows, state) else state.take(top.rows)

    def _numbered(self, state: pa.Table) -> pa.Table:
        """Return the result rows of state that has at most n rows per group, in order."""
        rows = self._layout.restored(state)
        top = in_order(self._groups(state, rows), lambda some: self._all_words(rows, some))
        columns = rows.select(self.columns).take(top.rows).columns
        number = [] if self.number is None else [pa.array(top.places() + 1)]
        return pa.table([*columns, *number], schema=self.result_schema)

    def _all_words(self, rows: pa.Table, some: Indices) -> list[Words]:
        """Return the sort words of the order, and of the columns that break ties."""
        fixed = {*self.keys, self.time, *(o.column for o in self.order)}  # equal within a group, or part of the order
        ties = rows.select([name for name in self.columns if name not in fixed]).take(some)
        return [*self._order_words(rows, some), *(word for column in ties.columns for word in sort_words(column))]

    def _order_words(self, rows: pa.Table, some: Indices) -> list[Words]:
        """Return the sort words of the order."""
        return [
            word
            for o in self.order
            for word in sort_words(rows.column(o.column).take(some), descending=o.descending, nulls_first=o.nulls_first)
        ]


def _as_it_stands(rows: Indices, table: pa.Table) -> bool:
    """Return whether the indices are 0, 1, 2, ... over the whole table."""
    return np.array_equal(rows, np.arange(table.num_rows))


def _check_flat(field: AnyField) -> None:
    """Raise QueryError if the column is nested, because rows cannot be ordered by nested values."""
    if is_nested(field.type):
        raise QueryError(
            "rows cannot be ordered by a nested value",
            detail=f"its type is {sql_type(field.type)}",
            hint="order by one of its fields or elements, or by its text with to_json(...)",
        )


def _check_sortable(field: AnyField) -> None:
    """Raise QueryError if values of the column have no order, which ties need."""
    if not is_sortable(field.type):
        raise QueryError(
            f"rows with the column `{field.name}` cannot be limited",
            detail=f"values of type {sql_type(field.type)} have no order, which ties need",
            hint="omit the column, or cast it to VARCHAR",
        )


@dataclass(frozen=True)
class Members:
    """Rows and the numbers of their groups. Invariant: group numbers are ascending, so the rows of a group are
    contiguous."""

    rows: Indices
    groups: Indices

    def chosen(self, which: Indices | Flags) -> Members:
        """Return the rows selected by indices or flags."""
        return Members(self.rows[which], self.groups[which])

    def starts(self) -> Indices:
        """Return, for each row, the position where its group starts."""
        heads = self._heads()
        return np.repeat(heads, np.diff(heads, append=len(self.groups)))

    def places(self) -> Indices:
        """Return the position of each row in its group, from 0."""
        return np.arange(len(self.groups)) - self.starts()

    def sizes(self) -> Indices:
        """Return the size of each row's group."""
        sizes = np.diff(self._heads(), append=len(self.groups))
        return np.repeat(sizes, sizes)

    def _heads(self) -> Indices:
        """Return the position of the first row of each group."""
        return np.flatnonzero(np.diff(self.groups, prepend=-1))


def members_of(groups: Segments) -> Members:
    """Return the members of groups that do not overlap."""
    return Members(groups.rows(), groups.spread(np.arange(len(groups))))


def in_order(members: Members, words_of: WordsOf) -> Members:
    """Sort each group by the words."""
    return members.chosen(_order(members, words_of(members.rows)))


def first_rows(members: Members, n: int, words_of: WordsOf, *, ties: bool) -> Members:
    """Return the first `n` rows of each group and, with `ties`, the rows equal to the n-th. Only groups of more than n
    rows are sorted, so the rows of a group come in no defined order."""
    large = members.sizes() > n
    if not large.any():
        return members
    some = members.chosen(large)
    words = words_of(some.rows)
    order = _order(some, words)
    some = some.chosen(order)
    if ties:
        levels = _levels(len(order), [word[order] for word in words])
        leading = levels <= levels[some.starts() + n - 1]
    else:
        leading = some.places() < n
    return _together(members.chosen(~large), some.chosen(leading))


def _order(members: Members, words: Sequence[Words]) -> Indices:
    """Return the order by group, then by words."""
    return order_by_words([members.groups.astype(np.uint64), *words])


def _levels(rows: int, words: Sequence[Words]) -> Indices:
    """Return numbers that increase from row to row except where a row equals its predecessor."""
    changes = np.zeros(rows, dtype=np.bool_)
    for word in words:
        changes[1:] |= word[1:] != word[:-1]
    return np.cumsum(changes)


def _together(some: Members, others: Members) -> Members:
    """Merge two sets of members into one, sorted by group."""
    both = Members(np.append(some.rows, others.rows), np.append(some.groups, others.groups))
    return both.chosen(np.argsort(both.groups, kind="stable"))
