"""The rows of a site: sorted tables and slices that are cut by hash, so that no part has too many rows or bytes; and a
uniform view of stored rows, rows pending work, and rows that have just arrived."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from penstock.engine.task.site.storing import Storage, of_port
from penstock.operators.arrange import hashes_of
from penstock.operators.protocol import Operator, Portion, ProbingOperator, Stored
from penstock.progress.mark import Marks
from penstock.state.hash_ranges import Hashes, HashRange, place_of
from penstock.state.model import SiteState
from penstock.state.runs import TIME, Slice, restrict
from penstock.storage.memory import LOOK_UP, RESIDENT


class RowsByHash(Protocol):
    """Rows sorted by hash, in memory or in a run."""

    @property
    def hashes(self) -> Hashes:
        """Return the hashes of all rows."""
        ...

    @property
    def most_bytes(self) -> int:
        """Return an upper bound of the bytes of all rows, at little cost."""
        ...

    def inside(self, part: HashRange) -> pa.Table:
        """Return the rows of a range."""
        ...

    def size(self, part: HashRange) -> int:
        """Return the bytes of the rows of a range."""
        ...

    def looked_up(self) -> None:
        """Record that a hash is about to be looked up in `hashes`."""
        ...


@dataclass(frozen=True, eq=False)
class TableRows:
    """The rows of a table in memory."""

    table: pa.Table

    @cached_property
    def hashes(self) -> Hashes:
        return hashes_of(self.table)

    @property
    def most_bytes(self) -> int:
        return int(self.table.nbytes)

    def inside(self, part: HashRange) -> pa.Table:
        return self.table[part.rows(self.hashes)]

    def size(self, part: HashRange) -> int:
        return int(self.inside(part).nbytes)

    def looked_up(self) -> None:
        """Do nothing: the table is in memory."""


@dataclass(frozen=True, eq=False)
class SliceRows:
    """The rows of a slice, read when they are needed. Its rows must have been fetched."""

    storage: Storage
    slice: Slice

    @cached_property
    def hashes(self) -> Hashes:
        return self.storage.hashes(self.slice)

    @property
    def most_bytes(self) -> int:
        return self.slice.run.size

    def inside(self, part: HashRange) -> pa.Table:
        for piece in restrict([self.slice], [part]):
            return self.storage.read(piece)
        return self.storage.read(self.slice).slice(0, 0)

    def size(self, part: HashRange) -> int:
        return sum(map(self.storage.size, restrict([self.slice], [part])))

    def looked_up(self) -> None:
        RESIDENT.read(LOOK_UP)


@dataclass(frozen=True, eq=False)
class EstimatedRows(SliceRows):
    """The rows of a slice, with bytes estimated from the mean of the run: for rows that are looked up, not copied."""

    def size(self, part: HashRange) -> int:
        rows = part.rows(self.hashes)
        return int((rows.stop - rows.start) * self.slice.run.size // self.slice.run.rows)


@dataclass(frozen=True)
class PartLimits:
    """The most rows and bytes that a part of a range should have (None: any number)."""

    rows: int | None = None
    bytes: int | None = None


def cut(part: HashRange, sources: Sequence[RowsByHash], limits: PartLimits) -> Iterator[HashRange]:
    """Yield the range in parts: no part is empty unless the whole range is, and none exceeds the limits unless its rows
    have the same hash."""
    if limits.bytes is not None and sum(source.most_bytes for source in sources) <= limits.bytes:
        limits = PartLimits(limits.rows)
    if limits == PartLimits():
        return iter((part,))  # nothing needs to be read
    return _cut(part, [(source, source.hashes[part.rows(source.hashes)]) for source in sources], limits)


def _cut(part: HashRange, columns: Sequence[tuple[RowsByHash, Hashes]], limits: PartLimits) -> Iterator[HashRange]:
    filled = [(source, hashes) for source, hashes in columns if len(hashes)]
    if _fits(part, filled, limits):
        yield part
        return
    ends = [_ends(source, hashes) for source, hashes in filled]
    first, last = min(first for first, _ in ends), max(last for _, last in ends)
    if first == last:
        yield part
        return
    border = shortest_prefix(first, last)
    places = [_place(source, hashes, border) for source, hashes in filled]
    below = [(source, hashes[:place]) for (source, hashes), place in zip(filled, places, strict=True)]
    above = [(source, hashes[place:]) for (source, hashes), place in zip(filled, places, strict=True)]
    yield from _cut(HashRange(part.low, border), below, limits)
    yield from _cut(HashRange(border, part.high), above, limits)


def _ends(source: RowsByHash, hashes: Hashes) -> tuple[int, int]:
    source.looked_up()
    return int(hashes[0]), int(hashes[-1])


def _place(source: RowsByHash, hashes: Hashes, border: int) -> int:
    source.looked_up()
    return place_of(border, hashes)


def _fits(part: HashRange, columns: Sequence[tuple[RowsByHash, Hashes]], limits: PartLimits) -> bool:
    if limits.rows is not None and sum(len(hashes) for _, hashes in columns) > limits.rows:
        return False
    return limits.bytes is None or sum(source.size(part) for source, _ in columns) <= limits.bytes


def shortest_prefix(first: int, last: int) -> int:
    """Return the number in (first, last] with the most trailing zero bits."""
    low_bits = (first ^ last).bit_length() - 1
    return last >> low_bits << low_bits


class StateView(ABC):
    """The state of a site during a step. `fresh[port]` are the state rows that have just arrived, in sorted tables; at
    most one table if the operator probes. What these rows are to the operator, the two kinds of views say.

    Invariant: `_arrived[port]` are the rows of these tables; `_pending` has those of the pending slices that are here.
    """

    def __init__(
        self, storage: Storage, operator: Operator, state: SiteState, fresh: Sequence[Sequence[pa.Table]]
    ) -> None:
        self._storage, self._operator, self._state = storage, operator, state
        self.fresh = fresh
        self._arrived = [list(map(TableRows, tables)) for tables in fresh]
        self._pending: dict[Slice, SliceRows] = {}

    def least_times(self) -> tuple[int | None, ...]:
        """Return, for each port, the least time of any row that closing work could concern; None if there is no row."""
        return tuple(self._least(port) for port in range(self._operator.ports))

    def _least(self, port: int) -> int | None:
        return min((piece.run.min_time for piece in of_port(self._state.slices, port)), default=None)

    def rows(self) -> int:
        """Return an upper bound on the rows of the site: all rows of its runs, and those that have just arrived."""
        runs = {piece.run for piece in (*self._state.slices, *self._state.pending)}
        return sum(run.rows for run in runs) + self.fresh_rows

    def stored_bytes(self) -> int:
        """Return an upper bound on the bytes of the stored rows: those of all their runs."""
        return sum(run.size for run in {piece.run for piece in self._state.slices})

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

    def cuts(self, part: HashRange, limits: PartLimits) -> Iterator[HashRange]:
        """Yield the range cut into parts whose rows that work goes through keep the limits, but never within one
        hash."""
        return cut(part, self._all_waiting(), limits)

    @property
    def fresh_rows(self) -> int:
        """Return how many rows have just arrived."""
        return sum(rows.num_rows for tables in self.fresh for rows in tables)

    def _all_waiting(self) -> list[RowsByHash]:
        return [rows for port in range(self._operator.ports) for rows in self._waiting(port)]

    def _waiting(self, port: int) -> Iterator[RowsByHash]:
        """Yield all rows pending work, except those of slices that have not been fetched yet."""
        for piece in of_port(self._state.pending, port):
            if piece not in self._pending and self._storage.is_here(piece):
                self._pending[piece] = SliceRows(self._storage, piece)
            if piece in self._pending:
                yield self._pending[piece]
        yield from self._arrived[port]

    def hashes_inside(self, ranges: Iterable[HashRange]) -> list[Hashes]:
        """Return the hashes of pending rows in some ranges, as sorted columns."""
        every = [rows.hashes for rows in self._all_waiting()]
        return [hashes[part.rows(hashes)] for part in ranges for hashes in every]

    @abstractmethod
    def portion(self, part: HashRange, after: Marks, upto: Marks) -> Portion:
        """Return the input of one work item: all state of the operator in a range of hashes."""

    def _stored(self, port: int, part: HashRange) -> list[Stored]:
        return [self._storage.stored(piece) for piece in restrict(of_port(self._state.slices, port), [part])]

    def unworked(self, port: int, ranges: Iterable[HashRange]) -> list[pa.Table]:
        """Return the rows of some ranges that are pending work, as sorted tables."""
        waiting = list(self._waiting(port))
        return [rows.inside(part) for part in ranges for rows in waiting]

    def fresh_inside(self, port: int, ranges: Iterable[HashRange]) -> pa.Table:
        """Return the rows of some ranges that have just arrived, in the order of the ranges."""
        parts = [rows.inside(part) for part in ranges for rows in self._arrived[port]]
        return pa.concat_tables([self._operator.state_schema(port).empty_table(), *parts])


class _ProbingView(StateView):
    """The view of an operator that probes: rows that have arrived, and those of earlier epochs, are pending. Work goes
    through the pending rows and looks up only a few stored ones."""

    def cuts(self, part: HashRange, limits: PartLimits) -> Iterator[HashRange]:
        """Yield parts that keep the limits, and whose stored rows fit into memory: work may look up any of them."""
        pages = PartLimits(bytes=self._storage.budget.pages)
        for within in super().cuts(part, limits):
            stored = [EstimatedRows(self._storage, piece) for piece in restrict(self._state.slices, [within])]
            yield from cut(within, stored, pages)

    def has_unworked(self, part: HashRange) -> bool:
        return any(map(len, self.hashes_inside([part]))) or any(
            not self._storage.is_here(piece) for piece in restrict(self._state.pending, [part])
        )

    def unworked_rows(self) -> int:
        away = sum(not self._storage.is_here(piece) for piece in self._state.pending)
        return sum(len(rows.hashes) for rows in self._all_waiting()) + away

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

    def cuts(self, part: HashRange, limits: PartLimits) -> Iterator[HashRange]:
        stored = (SliceRows(self._storage, piece) for piece in restrict(self._state.slices, [part]))
        return cut(part, [*self._all_waiting(), *stored], limits)

    def portion(self, part: HashRange, after: Marks, upto: Marks) -> Portion:
        ports = range(self._operator.ports)
        fresh = [[as_stored(rows) for rows in self.unworked(port, [part]) if rows.num_rows] for port in ports]
        stored = tuple([*self._stored(port, part), *fresh[port]] for port in ports)
        return Portion(stored, tuple(self._operator.state_schema(port).empty_table() for port in ports), after, upto)


def state_view(
    storage: Storage, operator: Operator, state: SiteState, fresh: Sequence[Sequence[pa.Table]]
) -> StateView:
    """Return the view of a site's state that suits its operator."""
    kind = _ProbingView if isinstance(operator, ProbingOperator) else _ClosingView
    return kind(storage, operator, state, fresh)


def as_stored(rows: pa.Table) -> Stored:
    """Wrap a non-empty table of state rows as `Stored`."""
    bounds = pc.min_max(rows.column(TIME))
    return Stored(rows, bounds["min"].as_py(), bounds["max"].as_py())
