"""A uniform view of a site's state: stored rows, rows pending work, and rows that have just arrived."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.engine.task.site.storing import Storage, of_port
from penstock.operators.arrange import hashes_of
from penstock.operators.protocol import Operator, Portion, ProbingOperator, Stored
from penstock.progress.mark import Marks
from penstock.state.hash_ranges import Hashes, HashRange
from penstock.state.model import SiteState
from penstock.state.runs import TIME, Slice, restrict


class StateView(ABC):
    """The state of a site during a step. `fresh[port]` are the state rows that have just arrived, in sorted tables; at
    most one table if the operator probes. What these rows are to the operator, the two kinds of views say.

    Invariant: `_arrived[port]` are these tables with their hashes; `_pending` has the pending slices that have been
    read so far, each read once.
    """

    def __init__(
        self, storage: Storage, operator: Operator, state: SiteState, fresh: Sequence[Sequence[pa.Table]]
    ) -> None:
        self._storage, self._operator, self._state = storage, operator, state
        self.fresh = fresh
        self._arrived = [[(rows, hashes_of(rows)) for rows in tables] for tables in fresh]
        self._pending: dict[Slice, tuple[pa.Table, Hashes]] = {}

    def least_times(self) -> tuple[int | None, ...]:
        """Return, for each port, the least time of any row that closing work could concern; None if there is no row."""
        return tuple(self._least(port) for port in range(self._operator.ports))

    def _least(self, port: int) -> int | None:
        return min((piece.run.min_time for piece in of_port(self._state.slices, port)), default=None)

    def rows(self) -> int:
        """Return an upper bound on the rows of the site: all rows of its runs, and those that have just arrived."""
        runs = {piece.run for piece in (*self._state.slices, *self._state.pending)}
        fresh: int = sum(rows.num_rows for tables in self.fresh for rows in tables)
        return sum(run.rows for run in runs) + fresh

    @abstractmethod
    def has_unworked(self, part: HashRange) -> bool:
        """Return whether rows of this range are pending work. A slice that has not been fetched yet counts as having
        some."""

    @abstractmethod
    def unworked_rows(self) -> int:
        """Return how many rows are pending work; each slice that has not been fetched yet counts as one row."""

    def on_their_way(self) -> list[Slice]:
        """Return the slices that have not been fetched yet, pending ones first."""
        return [p for p in (*self._state.pending, *self._state.slices) if not self._storage.is_here(p)]

    def cuts(self, part: HashRange, most_rows: int) -> Iterator[HashRange]:
        """Yield the range cut into parts of at most `most_rows` rows that work goes through, but never within one
        hash."""
        return cut(part, [_inside(hashes, part) for hashes in self._all_hashes()], most_rows)

    @property
    def has_fresh(self) -> bool:
        """Return whether any rows have just arrived."""
        return any(rows.num_rows for tables in self.fresh for rows in tables)

    def _all_hashes(self) -> Iterator[Hashes]:
        return (hashes for port in range(self._operator.ports) for _, hashes in self._waiting(port))

    def _waiting(self, port: int) -> Iterator[tuple[pa.Table, Hashes]]:
        """Yield all tables of rows pending work, with their hashes, except slices that have not been fetched yet."""
        for piece in of_port(self._state.pending, port):
            if piece not in self._pending and self._storage.is_here(piece):
                rows = self._storage.read(piece)
                self._pending[piece] = (rows, hashes_of(rows))
            if piece in self._pending:
                yield self._pending[piece]
        yield from self._arrived[port]

    def hashes_inside(self, ranges: Iterable[HashRange]) -> list[Hashes]:
        """Return the hashes of pending rows in some ranges, as sorted columns."""
        return [_inside(hashes, part) for part in ranges for hashes in self._all_hashes()]

    @abstractmethod
    def portion(self, part: HashRange, after: Marks, upto: Marks) -> Portion:
        """Return the input of one work item: all state of the operator in a range of hashes."""

    def _stored(self, port: int, part: HashRange) -> list[Stored]:
        return [self._storage.stored(piece) for piece in restrict(of_port(self._state.slices, port), [part])]

    def unworked(self, port: int, ranges: Iterable[HashRange]) -> list[pa.Table]:
        """Return the rows of some ranges that are pending work, as sorted tables."""
        tables = list(self._waiting(port))
        return [rows[part.rows(hashes)] for part in ranges for rows, hashes in tables]

    def fresh_inside(self, port: int, ranges: Iterable[HashRange]) -> pa.Table:
        """Return the rows of some ranges that have just arrived, in the order of the ranges."""
        parts = [rows[part.rows(hashes)] for part in ranges for rows, hashes in self._arrived[port]]
        return pa.concat_tables([self._operator.state_schema(port).empty_table(), *parts])


class _ProbingView(StateView):
    """The view of an operator that probes: rows that have arrived, and those of earlier epochs, are pending. Work goes
    through the pending rows and looks up only a few stored ones."""

    def has_unworked(self, part: HashRange) -> bool:
        return any(len(_inside(hashes, part)) for hashes in self._all_hashes()) or any(
            not self._storage.is_here(piece) for piece in restrict(self._state.pending, [part])
        )

    def unworked_rows(self) -> int:
        away = sum(not self._storage.is_here(piece) for piece in self._state.pending)
        return sum(map(len, self._all_hashes())) + away

    def portion(self, part: HashRange, after: Marks, upto: Marks) -> Portion:
        ports = range(self._operator.ports)
        unworked = tuple(self._operator.combine(port, self.unworked(port, [part])) for port in ports)
        return Portion(tuple(self._stored(port, part) for port in ports), unworked, after, upto)


class _ClosingView(StateView):
    """The view of an operator that closes state: rows that have arrived are stored rows, and nothing is pending."""

    def _least(self, port: int) -> int | None:
        times = [pc.min(rows.column(TIME)).as_py() for rows in self.fresh[port] if rows.num_rows]
        stored = super()._least(port)
        return min(times if stored is None else [stored, *times], default=None)

    def has_unworked(self, part: HashRange) -> bool:
        return False

    def unworked_rows(self) -> int:
        return 0

    def cuts(self, part: HashRange, most_rows: int) -> Iterator[HashRange]:
        columns = [_inside(hashes, part) for hashes in self._all_hashes()]
        columns += [hashes_of(self._storage.read(piece)) for piece in restrict(self._state.slices, [part])]
        return cut(part, columns, most_rows)

    def portion(self, part: HashRange, after: Marks, upto: Marks) -> Portion:
        ports = range(self._operator.ports)
        fresh = [[_as_stored(rows) for rows in self.unworked(port, [part]) if rows.num_rows] for port in ports]
        stored = tuple([*self._stored(port, part), *fresh[port]] for port in ports)
        return Portion(stored, tuple(self._operator.state_schema(port).empty_table() for port in ports), after, upto)


def state_view(
    storage: Storage, operator: Operator, state: SiteState, fresh: Sequence[Sequence[pa.Table]]
) -> StateView:
    """Return the view of a site's state that suits its operator."""
    kind = _ProbingView if isinstance(operator, ProbingOperator) else _ClosingView
    return kind(storage, operator, state, fresh)


def _as_stored(rows: pa.Table) -> Stored:
    bounds = pc.min_max(rows.column(TIME))
    return Stored(rows, bounds["min"].as_py(), bounds["max"].as_py())


def _inside(hashes: Hashes, part: HashRange) -> Hashes:
    return hashes[part.rows(hashes)]


def cut(part: HashRange, columns: Sequence[Hashes], most_rows: int) -> Iterator[HashRange]:
    """Yield the range in parts: no part is empty unless the whole range is, and none has more than `most_rows` rows
    unless they have the same hash. `columns` are the hashes of the rows in the range, each sorted."""
    filled = [hashes for hashes in columns if len(hashes)]
    if sum(map(len, filled)) <= most_rows:
        yield part
        return
    first, last = min(int(hashes[0]) for hashes in filled), max(int(hashes[-1]) for hashes in filled)
    if first == last:
        yield part
        return
    border = shortest_prefix(first, last)
    places = [int(np.searchsorted(hashes, np.uint64(border))) for hashes in filled]
    below = [hashes[:place] for hashes, place in zip(filled, places, strict=True)]
    above = [hashes[place:] for hashes, place in zip(filled, places, strict=True)]
    yield from cut(HashRange(part.low, border), below, most_rows)
    yield from cut(HashRange(border, part.high), above, most_rows)


def shortest_prefix(first: int, last: int) -> int:
    """Return the number in (first, last] with the most trailing zero bits."""
    low_bits = (first ^ last).bit_length() - 1
    return last >> low_bits << low_bits
