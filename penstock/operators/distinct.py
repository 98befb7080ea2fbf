"""Duplicate elimination: of rows that are equal in all columns, one is emitted, as soon as the first is seen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.arrow import AnyArray
from penstock.kernels.arrays import Indices, Words
from penstock.kernels.hash import canonical_keys, check_key_type, hash_columns, is_text, key_words
from penstock.kernels.order import group_by_pane
from penstock.kernels.segments import Segments
from penstock.operators.arrange import arranged, hashes_of, merged, times_of
from penstock.operators.protocol import UNCOUNTED, OutputCounts, Portion, ProbingOperator, Stored, WorkResult
from penstock.operators.row_layout import WholeRows
from penstock.progress.mark import Mark, Marks
from penstock.types import time_values


@dataclass(frozen=True)
class DistinctRows(WholeRows, ProbingOperator):
    """Emits each distinct row of `input_schema` once. Nulls are equal to each other, and so are NaNs and both zeros.

    A row is stored until the mark passes its `time`; all rows equal to it have the same time. `hash_bits` below 64
    makes hashes collide, for tests.
    """

    time: str
    input_schema: pa.Schema
    hash_bits: int = 64

    def __post_init__(self) -> None:
        for field in self.input_schema:
            check_key_type(field.type, field.name)

    def prepare(self, port: int, rows: pa.Table) -> pa.Table:
        times = time_values(rows.column(self.time))
        canonical = canonical_keys([rows.column(name) for name in self.input_schema.names])
        encoded = [array.dictionary_encode() if is_text(array.type) else array for array in canonical]
        hashes = hash_columns(encoded, self.hash_bits)
        groups = group_by_pane(hashes, times, 1, self._words(encoded))
        state = self._layout.stored(hashes, times, pa.table(canonical, schema=self.input_schema))
        return _heads(state, groups)

    def arrange(self, port: int, rows: pa.Table) -> pa.Table:
        return arranged(rows, self.input_schema.names, self.time, self.hash_bits)

    def prepare_arranged(self, port: int, arranged: pa.Table) -> pa.Table:
        return self.prepare(port, arranged.select(range(2, arranged.num_columns)))

    def combine(self, port: int, tables: Sequence[pa.Table]) -> pa.Table:
        together = merged(tables, self._layout.state_schema)
        return _heads(together, self._groups(together))

    def due(self, after: Marks, upto: Marks, least: tuple[int | None, ...]) -> bool:
        return False

    def work(self, portion: Portion, counts: OutputCounts = UNCOUNTED) -> WorkResult:
        new = self._new(portion.stored[0], portion.fresh[0])
        counts.add(hashes_of(new))
        results = (self._layout.restored(new),) if new.num_rows else ()
        return WorkResult(results, (_remembered(new, portion.upto[0]),))

    def _new(self, stored: Sequence[Stored], fresh: pa.Table) -> pa.Table:
        """Return one row of each set of equal fresh rows that equal no stored row."""
        candidates = _candidates(stored, fresh) if fresh.num_rows else []
        together = pa.concat_tables([fresh, *candidates])
        groups = self._groups(together)
        known = groups.any(np.arange(together.num_rows) >= fresh.num_rows)
        return _heads(together, Segments(groups.order, groups.lo[~known], groups.hi[~known]))

    def _groups(self, state: pa.Table) -> Segments:
        """Group equal state rows."""
        words = [word for column in state.columns[2:] for word in key_words(column)]
        return group_by_pane(hashes_of(state), times_of(state), 1, words)

    def _words(self, columns: Sequence[AnyArray]) -> list[Words]:
        """Return the words that distinguish rows of equal time."""
        named = zip(self.input_schema.names, columns, strict=True)
        return [word for name, column in named if name != self.time for word in key_words(column)]


def _heads(state: pa.Table, groups: Segments) -> pa.Table:
    """Return the first row of each group."""
    if groups.order is None and len(groups) == state.num_rows:
        return state
    return state.take(groups.first_rows)


def _candidates(stored: Sequence[Stored], fresh: pa.Table) -> list[pa.Table]:
    """Return the stored rows with the hash of a fresh row. Skips slices whose times do not overlap those of the fresh
    rows."""
    hashes, times = np.unique(hashes_of(fresh)), times_of(fresh)
    least, largest = int(times.min()), int(times.max())
    near = [piece.rows for piece in stored if piece.least <= largest and least <= piece.largest]
    return [rows.take(_places(hashes_of(rows), hashes)) for rows in near]


def _places(hashes: Words, wanted: Words) -> Indices:
    """Return the positions of the wanted hashes in `hashes`. Both must be sorted."""
    lo, hi = np.searchsorted(hashes, wanted, "left"), np.searchsorted(hashes, wanted, "right")
    found = lo < hi
    return Segments(None, lo[found], hi[found]).rows()


def _remembered(state: pa.Table, mark: Mark) -> pa.Table:
    """Return the rows of which duplicates may still arrive."""
    if mark.ended:
        return state.slice(0, 0)
    alive = times_of(state) >= mark.at
    return state if alive.all() else state.filter(pa.array(alive))
