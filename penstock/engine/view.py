"""A site's state as one thing: what is stored, what waits for work, and what has just arrived."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

import pyarrow as pa
import pyarrow.compute as pc

from penstock.checkpoint.manifest import SiteState
from penstock.engine.storing import Storage, of_port
from penstock.operators.arrange import hashes_of
from penstock.operators.base import Marks, Operator, Portion, Stored
from penstock.state.directory import Hashes, HashRange
from penstock.state.runs import TIME, Slice, restrict


class StateView:
    """`fresh[port]` are the state rows that have just arrived, in tables that are sorted; one at most where the
    operator probes."""

    def __init__(
        self, storage: Storage, operator: Operator, state: SiteState, fresh: Sequence[Sequence[pa.Table]]
    ) -> None:
        self._storage, self._operator, self._state = storage, operator, state
        self.fresh = fresh
        self._hashes = [[hashes_of(table) for table in tables] for tables in fresh]

    def least_times(self) -> tuple[int | None, ...]:
        """For each port the least time of any row that closing work could be about; None where there is no row."""
        return tuple(self._least(port) for port in range(self._operator.ports))

    def _least(self, port: int) -> int | None:
        times = [piece.run.min_time for piece in of_port(self._state.slices, port)]
        if not self._operator.probes:
            times += [pc.min(rows.column(TIME)).as_py() for rows in self.fresh[port] if rows.num_rows]
        return min(times, default=None)

    @property
    def has_fresh(self) -> bool:
        """Whether any rows have arrived."""
        return any(rows.num_rows for tables in self.fresh for rows in tables)

    def has_unworked(self, part: HashRange) -> bool:
        """Whether rows of this range wait to be worked on."""
        if not self._operator.probes:
            return False
        fresh = any(len(_inside(hashes, part)) for hashes in self._all_hashes())
        return fresh or any(self._storage.read(p).num_rows for p in restrict(self._state.pending, [part]))

    def cuts(self, part: HashRange, most_rows: int) -> list[HashRange]:
        """The range cut into parts of about `most_rows` rows each, never inside one hash."""
        columns = [hashes_of(self._storage.read(piece)) for piece in restrict(self._worked_through(), [part])]
        columns += [_inside(hashes, part) for hashes in self._all_hashes()]
        count = -(-sum(map(len, columns)) // most_rows)
        longest = max(columns, key=len, default=())
        inner = {int(longest[i * len(longest) // count]) for i in range(1, count)}
        bounds = sorted({part.low, part.high, *(b for b in inner if part.low < b < part.high)})
        return [HashRange(low, high) for low, high in pairwise(bounds)]

    def _all_hashes(self) -> Iterator[Hashes]:
        return (hashes for port in self._hashes for hashes in port)

    def _worked_through(self) -> tuple[Slice, ...]:
        """The slices whose rows an item goes through one by one: probing looks up only a few of those stored."""
        return self._state.pending if self._operator.probes else self._state.slices

    def portion(self, part: HashRange, after: Marks, upto: Marks) -> Portion:
        """All that the operator has on a range of hashes."""
        ports = range(self._operator.ports)
        state = self._state
        stored = [[self._storage.stored(p) for p in restrict(of_port(state.slices, n), [part])] for n in ports]
        arrived = [self._fresh_of(n, part) for n in ports]
        if self._operator.probes:
            waiting = [
                [self._storage.read(p) for p in restrict(of_port(self._state.pending, n), [part])] for n in ports
            ]
            unworked = [self._operator.combine(n, [*waiting[n], *arrived[n]]) for n in ports]
            return Portion(tuple(stored), tuple(unworked), after, upto)
        for n in ports:
            stored[n] += [_as_stored(rows) for rows in arrived[n] if rows.num_rows]
        nothing = tuple(self._operator.state_schema(n).empty_table() for n in ports)
        return Portion(tuple(stored), nothing, after, upto)

    def fresh_inside(self, port: int, ranges: Iterable[HashRange]) -> pa.Table:
        """The rows of some ranges, in order of their hashes, that have just arrived."""
        parts = [rows for part in ranges for rows in self._fresh_of(port, part)]
        return pa.concat_tables([self._operator.state_schema(port).empty_table(), *parts])

    def _fresh_of(self, port: int, part: HashRange) -> list[pa.Table]:
        return [rows[part.rows(hashes)] for rows, hashes in zip(self.fresh[port], self._hashes[port], strict=True)]


def _as_stored(rows: pa.Table) -> Stored:
    bounds = pc.min_max(rows.column(TIME))
    return Stored(rows, bounds["min"].as_py(), bounds["max"].as_py())


def _inside(hashes: Hashes, part: HashRange) -> Hashes:
    return hashes[part.rows(hashes)]
