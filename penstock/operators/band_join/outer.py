"""Rows of a join that are judged by whether they have a partner: those of outer, semi and anti joins.

No flags are kept: whether a row has a partner is looked up among the rows of the other input when it matters.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from penstock.operators.arrange import merged
from penstock.operators.band_join.match import Matcher
from penstock.operators.band_join.pieces import Piece, fresh_piece

_ROWS = 1 << 18  # state rows looked through, or gathered, at a time


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
