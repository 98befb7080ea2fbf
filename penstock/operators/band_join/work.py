"""What a join does with a portion: results from its fresh rows and its marks, and which fresh rows stay."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

import numpy as np
import pyarrow as pa

from penstock.kernels.arrays import Flags
from penstock.operators.arrange import merged
from penstock.operators.band_join.lifetimes import PRESERVED, Lifetimes
from penstock.operators.band_join.match import Matcher
from penstock.operators.band_join.pieces import Piece, fresh_piece, pieces_of, with_keys, without_keys
from penstock.operators.protocol import Done, Portion
from penstock.operators.result_blocks import in_blocks
from penstock.progress.mark import MIN_TIME

_ROWS = 1 << 18  # state rows looked through, or gathered, at a time


@dataclass(frozen=True)
class JoinWork:
    """A join and a portion of its work. `schema` is that of the results, `payload[port]` the columns a port gives."""

    kind: str
    matcher: Matcher
    lifetimes: Lifetimes
    schema: pa.Schema
    payload: tuple[tuple[str, ...], ...]
    portion: Portion

    def done(self) -> Done:
        return Done(in_blocks(self._results()), tuple(map(self._kept, range(len(self._fresh)))))

    @cached_property
    def _stored(self) -> tuple[tuple[Piece, ...], ...]:
        return tuple(tuple(pieces_of(tables)) for tables in self.portion.stored)

    @cached_property
    def _fresh(self) -> tuple[Piece, ...]:
        """The fresh rows that can have partners."""
        ports = zip(self.portion.fresh, self.matcher.ports, strict=True)
        return tuple(fresh_piece(with_keys(table, port.keys)) for table, port in ports)

    @cached_property
    def _matched(self) -> Flags:
        """Which fresh rows of input 0 have a partner by now."""
        return self.matcher.have_partner(0, self._fresh[0], self._all(1))

    def _all(self, port: int) -> tuple[Piece, ...]:
        return *self._stored[port], self._fresh[port]

    def _results(self) -> Iterator[pa.Table]:
        preserved = chain.from_iterable(map(self._unmatched, PRESERVED[self.kind]))
        match self.kind:
            case "semi":
                return self._semi()
            case "anti":
                return preserved
            case _:
                return chain(self._combinations(), preserved)

    def _combinations(self) -> Iterator[pa.Table]:
        """Each combination with a fresh row once: that of the last input that has one meets the fresh rows of those
        before it."""
        for port, piece in enumerate(self._fresh):
            others = [self._all(j) if j < port else self._stored[j] for j in range(len(self._fresh))]
            for columns in self.matcher.combinations(port, piece, others):
                yield pa.table([columns[name] for name in self.schema.names], schema=self.schema)

    def _semi(self) -> Iterator[pa.Table]:
        yield self._table(0, self._fresh[0].take(self._matched))
        for piece in first_matched(self.matcher, self._stored, self._fresh[1]):
            yield self._table(0, piece)

    def _unmatched(self, port: int) -> Iterator[pa.Table]:
        """The preserved rows that are now known to have no partner; those without a key are known at once."""
        yield self._table(port, fresh_piece(without_keys(self.portion.fresh[port], self.matcher.ports[port].keys)))
        now = self.lifetimes.to_decide(port, self.portion.after, self.portion.upto)
        stored, fresh = decided(self._stored[port], now), decided([self._fresh[port]], range(MIN_TIME, now.stop))
        for piece in without_partner(self.matcher, port, chain(stored, fresh), self._all(1 - port)):
            yield self._table(port, piece)

    def _table(self, port: int, piece: Piece) -> pa.Table:
        """State rows of one port as results, with nulls in the place of partners."""
        given = {name: self.matcher.ports[port].column(piece, name) for name in self.payload[port]}
        columns = [given[f.name] if f.name in given else pa.nulls(len(piece), f.type) for f in self.schema]
        return pa.table(columns, schema=self.schema)

    def _kept(self, port: int) -> pa.Table:
        """The fresh rows that are needed after this. A row of a semi or anti join is not once it has a partner."""
        piece = self._fresh[port]
        needed = piece.times >= self.lifetimes.needed_from(port, self.portion.upto)
        if port == 0 and self.kind in ("semi", "anti"):
            needed &= ~self._matched
        return pa.Table.from_batches([piece.take(needed).rows])


def decided(pieces: Iterable[Piece], times: range) -> Iterator[Piece]:
    """The rows with a time in a range."""
    for piece in pieces:
        if piece.least < times.stop and piece.largest >= times.start:
            yield from filter(len, (_within(piece, start, times) for start in range(0, len(piece), _ROWS)))


def _within(piece: Piece, start: int, times: range) -> Piece:
    part = piece.times[start : start + _ROWS]
    return piece.take(np.flatnonzero((part >= times.start) & (part < times.stop)) + start)


def without_partner(matcher: Matcher, port: int, pieces: Iterable[Piece], others: Sequence[Piece]) -> Iterator[Piece]:
    """The rows of pieces that no row of the other input belongs to."""
    for piece in _gathered(pieces):
        yield piece.take(~matcher.have_partner(port, piece, others))


def first_matched(matcher: Matcher, stored: Sequence[Sequence[Piece]], fresh: Piece) -> Iterator[Piece]:
    """The stored rows of input 0 that have a partner among fresh rows of input 1, and had none among the stored."""
    for piece in stored[0]:
        for rows in matcher.touched(1, fresh, piece):
            touched = piece.take(rows)
            matched = touched.take(matcher.have_partner(0, touched, [fresh]))
            yield matched.take(~matcher.have_partner(0, matched, stored[1]))


def _gathered(pieces: Iterable[Piece]) -> Iterator[Piece]:
    """The same rows in larger pieces, so that there are fewer to look up partners for."""
    waiting: list[pa.Table] = []
    for piece in pieces:
        waiting.append(pa.Table.from_batches([piece.rows]))
        if sum(table.num_rows for table in waiting) >= _ROWS:
            yield fresh_piece(merged(waiting, waiting[0].schema))
            waiting = []
    if waiting:
        yield fresh_piece(merged(waiting, waiting[0].schema))
