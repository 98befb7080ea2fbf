"""In-order processing: rows are held back and emitted in order of time once no earlier row can arrive."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.kernels.arrays import Indices, Times, Words
from penstock.kernels.hash import check_key_type, hash_columns
from penstock.operators.arrange import hashes_of, merged, sorted_with, times_of
from penstock.operators.completed import completed, completes
from penstock.operators.protocol import UNCOUNTED, ClosingOperator, OutputCounts, Portion, WorkResult
from penstock.operators.row_layout import WholeRows
from penstock.operators.sort_words import is_sortable, order_by_words, sort_words
from penstock.progress.mark import Marks
from penstock.types import as_array, require_column, time_values

_PIECE = 1 << 20  # rows per table of the result


@dataclass(frozen=True)
class Reorder(WholeRows, ClosingOperator):
    """Emits the rows of `input_schema` in order of `time`, and rows of equal time in order of their values.

    With `keys`, only rows of equal keys are in order. Without keys the order is total, so all rows have the same hash
    and live at one site.
    """

    time: str
    input_schema: pa.Schema
    keys: tuple[str, ...] = ()
    hash_bits: int = 64

    def __post_init__(self) -> None:
        for key in self.keys:
            check_key_type(require_column(self.input_schema, key, "the order").type, key)

    def prepare(self, port: int, rows: pa.Table) -> pa.Table:
        return self.prepare_arranged(port, self.arrange(port, rows))

    def arrange(self, port: int, rows: pa.Table) -> pa.Table:
        return sorted_with(self._hashes(rows), time_values(rows.column(self.time)), rows)

    def prepare_arranged(self, port: int, arranged: pa.Table) -> pa.Table:
        times = np.asarray(arranged.column(1).to_numpy(), dtype=np.int64)
        return self._layout.stored(hashes_of(arranged), times, arranged.select(range(2, arranged.num_columns)))

    def combine(self, port: int, tables: Sequence[pa.Table]) -> pa.Table:
        return merged(tables, self._layout.state_schema)

    def due(self, after: Marks, upto: Marks, least: tuple[int | None, ...]) -> bool:
        return completes(after[0], upto[0], least[0])

    def work(self, portion: Portion, counts: OutputCounts = UNCOUNTED) -> WorkResult:
        rows = completed(portion.stored[0], portion.after[0], portion.upto[0])
        return WorkResult(self._in_order(rows, counts), (self._layout.state_schema.empty_table(),))

    def _hashes(self, rows: pa.Table) -> Words:
        """Return the hash of each row's keys; zero for all rows without keys."""
        if not self.keys:
            return np.zeros(rows.num_rows, dtype=np.uint64)
        return hash_columns([as_array(rows.column(key)) for key in self.keys], self.hash_bits, length=rows.num_rows)

    def _in_order(self, tables: Sequence[pa.Table], counts: OutputCounts) -> Iterator[pa.Table]:
        """Yield the rows in order of time, in tables of bounded size."""
        held = merged(tables, self._layout.state_schema)
        counts.add(hashes_of(held))
        order = _ties_by_value(hashes_of(held), times_of(held), self._layout.restored(held))
        for start in range(0, held.num_rows, _PIECE):
            piece = slice(start, start + _PIECE)
            state = held.slice(start, _PIECE) if order is None else held.take(order[piece])
            yield self._layout.restored(state)


def _ties_by_value(hashes: Words, times: Times, rows: pa.Table) -> Indices | None:
    """Return the order that also sorts rows of equal hash and time by their values (None: unchanged). The input must be
    sorted by hash and time."""
    equal = (times[1:] == times[:-1]) & (hashes[1:] == hashes[:-1])
    if not equal.any():
        return None
    tied = np.flatnonzero(np.append(equal, False) | np.append(False, equal))
    few = rows.take(tied)
    words = [w for column in few.columns if is_sortable(column.type) for w in sort_words(column)]
    order = np.arange(len(times))
    order[tied] = tied[order_by_words([hashes[tied], times[tied].view(np.uint64) ^ np.uint64(1 << 63), *words])]
    return order
