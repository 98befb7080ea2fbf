"""The work of a join on one portion: the results of its fresh rows and marks, and the fresh rows to keep."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

import numpy as np
import pyarrow as pa

from penstock.kernels.arrays import Flags
from penstock.operators.arrange import gathered, in_blocks, merged
from penstock.operators.band_join.lifetimes import PRESERVED, Lifetimes
from penstock.operators.band_join.match import Matcher
from penstock.operators.band_join.state_rows import (
    StateRows,
    fresh_state_rows,
    state_rows_of,
    with_keys,
    without_keys,
)
from penstock.operators.generations import beginning
from penstock.operators.protocol import OutputCounts, Portion, WorkResult
from penstock.progress.mark import MIN_TIME

_ROWS = 1 << 18  # state rows scanned or gathered at a time

Term = tuple[int, Sequence[Sequence[StateRows]]]  # fresh rows of a port, joined with these rows of each other port


@dataclass(frozen=True)
class JoinWork:
    """A join and one portion of its work. `schema` is that of the results, which are counted in `counts`;
    `payload[port]` are the result columns of a port."""

    kind: str
    matcher: Matcher
    lifetimes: Lifetimes
    schema: pa.Schema
    payload: tuple[tuple[str, ...], ...]
    portion: Portion
    counts: OutputCounts

    def done(self) -> WorkResult:
        """Return the results, computed lazily, and the fresh rows to keep."""
        return WorkResult(in_blocks(self._results()), tuple(map(self._kept, range(len(self._fresh)))))

    @cached_property
    def _stored(self) -> tuple[tuple[StateRows, ...], ...]:
        """Return the stored rows of each port."""
        return tuple(tuple(state_rows_of(tables)) for tables in self.portion.stored)

    @cached_property
    def _fresh(self) -> tuple[StateRows, ...]:
        """Return the fresh rows of each port that can have partners, which are those without a null in the key."""
        ports = zip(self.portion.fresh, self.matcher.ports, strict=True)
        return tuple(fresh_state_rows(with_keys(table, port.keys)) for table, port in ports)

    @cached_property
    def _matched(self) -> Flags:
        """Return flags of the fresh rows of input 0 that have their first partner now."""
        if not self.portion.clean_up:
            return self.matcher.have_partner(0, self._fresh[0], self._all(1))
        before = self.matcher.have_partner(0, self._fresh[0], self._fresh[1:])
        return ~before & self.matcher.have_partner(0, self._fresh[0], self._stored[1])

    def _all(self, port: int) -> tuple[StateRows, ...]:
        """Return the stored and the fresh rows of a port."""
        return *self._stored[port], self._fresh[port]

    def _results(self) -> Iterator[pa.Table]:
        """Return the results according to the kind of the join."""
        preserved = chain.from_iterable(map(self._unmatched, PRESERVED[self.kind]))
        match self.kind:
            case "semi":
                return self._semi()
            case "anti":
                return preserved
            case _:
                return chain(self._combinations(), preserved)

    def _combinations(self) -> Iterator[pa.Table]:
        """Yield each combination that contains a fresh row once; in a clean-up, only those with a stored row, too."""
        for port, others in self._mixed_terms() if self.portion.clean_up else self._terms():
            for found in self.matcher.combinations(port, self._fresh[port], others):
                self.counts.add(found.block.hashes, found.positions)
                columns = found.columns()
                yield pa.table([columns[name] for name in self.schema.names], schema=self.schema)

    def _terms(self) -> Iterator[Term]:
        """Yield the terms whose combinations contain a fresh row: fresh rows of a port are joined with all rows of the
        ports before it, but only with the stored rows of the ports after it."""
        ports = range(len(self._fresh))
        for port in ports:
            yield port, [self._all(j) if j < port else self._stored[j] for j in ports]

    def _mixed_terms(self) -> Iterator[Term]:
        """Yield the terms whose combinations contain a fresh and a stored row. Each has a first port whose row differs
        from those of all ports before it: it is stored and they are fresh, or it is fresh and they are stored."""
        fresh, ports = [(piece,) for piece in self._fresh], range(len(self._fresh))
        for port in ports[1:]:
            after = [self._all(j) for j in ports[port + 1 :]]
            yield 0, [*fresh[:port], self._stored[port], *after]
            yield port, [*self._stored[:port], fresh[port], *after]

    def _semi(self) -> Iterator[pa.Table]:
        """Yield the rows of input 0 that have their first partner now."""
        yield self._table(0, self._fresh[0].take(self._matched))
        for piece in first_matched(self.matcher, self._stored, self._fresh[1]):
            yield self._table(0, piece)

    def _unmatched(self, port: int) -> Iterator[pa.Table]:
        """Yield the preserved rows that are now known to have no partner. Rows with a null in the key are emitted at
        once."""
        yield self._table(port, fresh_state_rows(without_keys(self.portion.fresh[port], self.matcher.ports[port].keys)))
        now = self.lifetimes.to_decide(port, self.portion.after, self.portion.upto)
        undecided = range(self._undecided_from(port), now.stop)
        stored, fresh = decided(self._stored[port], now), decided([self._fresh[port]], undecided)
        for piece in without_partner(self.matcher, port, chain(stored, fresh), self._all(1 - port)):
            yield self._table(port, piece)

    def _undecided_from(self, port: int) -> int:
        """Return the time from which preserved fresh rows are not decided. A younger generation was decided up to the
        beginning, which is above rows that are too early to have any partner."""
        if not self.portion.clean_up:
            return MIN_TIME
        return self.lifetimes.decided_below(port, beginning(self.portion.upto))

    def _table(self, port: int, piece: StateRows) -> pa.Table:
        """Return state rows of one port as results, with nulls in the columns of the other port."""
        self.counts.add(piece.hashes)
        given = {name: self.matcher.ports[port].column(piece, name) for name in self.payload[port]}
        columns = [given[f.name] if f.name in given else pa.nulls(len(piece), f.type) for f in self.schema]
        return pa.table(columns, schema=self.schema)

    def _kept(self, port: int) -> pa.Table:
        """Return the fresh rows that are still needed after `upto`; none in a clean-up, whose rows are stored already.
        A row of a semi or anti join is not needed once it has a partner."""
        if self.portion.clean_up:
            return self.portion.fresh[port].slice(0, 0)
        piece = self._fresh[port]
        needed = piece.times >= self.lifetimes.needed_from(port, self.portion.upto)
        if port == 0 and self.kind in ("semi", "anti"):
            needed &= ~self._matched
        return pa.Table.from_batches([piece.take(needed).rows])


def decided(pieces: Iterable[StateRows], times: range) -> Iterator[StateRows]:
    """Yield the rows with a time in `times`."""
    for piece in pieces:
        if piece.least < times.stop and piece.largest >= times.start:
            yield from filter(len, (_within(piece, start, times) for start in range(0, len(piece), _ROWS)))


def _within(piece: StateRows, start: int, times: range) -> StateRows:
    """Return the rows of a block of the piece with a time in `times`. `start` is the first row of the block."""
    part = piece.times[start : start + _ROWS]
    return piece.take(np.flatnonzero((part >= times.start) & (part < times.stop)) + start)


def without_partner(
    matcher: Matcher, port: int, pieces: Iterable[StateRows], others: Sequence[StateRows]
) -> Iterator[StateRows]:
    """Yield the rows of pieces that have no partner in the other input."""
    for piece in _gathered(pieces):
        yield piece.take(~matcher.have_partner(port, piece, others))


def first_matched(matcher: Matcher, stored: Sequence[Sequence[StateRows]], fresh: StateRows) -> Iterator[StateRows]:
    """Yield the stored rows of input 0 that have a partner among the fresh rows of input 1 but none among the stored
    rows."""
    for piece in stored[0]:
        for rows in matcher.touched(1, fresh, piece):
            touched = piece.take(rows)
            matched = touched.take(matcher.have_partner(0, touched, [fresh]))
            yield matched.take(~matcher.have_partner(0, matched, stored[1]))


def _gathered(pieces: Iterable[StateRows]) -> Iterator[StateRows]:
    """Yield the same rows in larger pieces, so that there are fewer probes of the other input."""
    for tables in gathered((pa.Table.from_batches([piece.rows]) for piece in pieces), _ROWS, len):
        yield fresh_state_rows(merged(tables, tables[0].schema))
