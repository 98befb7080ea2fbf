"""Compaction: choose which slices of a site to rewrite as one run. Pure; the site step rewrites them.

Slices that are adjacent in time are merged, up to half of the time span of the live rows, so that expiry can still drop
whole runs. A run with fewer than half of its rows alive is rewritten. If disorder makes each run as wide as the live
span, time cannot separate the runs; such wide runs are merged with each other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from penstock.state.runs import Slice

FAN = 4  # merge at least this many runs of similar size
MOST_SLICES = 24  # above this number, merge neighbours of any size


@dataclass(frozen=True)
class _Piece:
    """A slice with the time at which its live rows start. `broad`: its live rows span more than the limit of a
    merge."""

    slice: Slice
    start: int
    broad: bool


def choose(slices: Sequence[Slice], expired_below: int, window: int) -> list[tuple[Slice, ...]]:
    """Return sets of slices, each set to be rewritten as one run. No slice is in two sets.

    Rows below `expired_below` are dead. `window` is the length of the operator's window, in the unit of the times.
    """
    if not slices:
        return []
    alive_span = max(s.run.max_time for s in slices) - expired_below
    limit = max(window, alive_span) // 2
    pieces = sorted((_piece(s, expired_below, limit) for s in slices), key=lambda p: (p.broad, p.start))
    chosen = list(_tiers([p for p in pieces if p.broad], None)) + list(
        _tiers([p for p in pieces if not p.broad], limit)
    )
    if not chosen and len(slices) > MOST_SLICES:
        chosen = [tuple(p.slice for p in pieces[: len(slices) - MOST_SLICES // 2])]
    taken = {s for group in chosen for s in group}
    return chosen + [(s,) for s in slices if s not in taken and _mostly_dead(s, expired_below)]


def _piece(piece: Slice, expired_below: int, limit: int) -> _Piece:
    """Return the slice with the start of its live rows, and mark it as broad if they span more than `limit`."""
    start = max(piece.run.min_time, expired_below)
    return _Piece(piece, start, piece.run.max_time - start > limit)


def _mostly_dead(piece: Slice, expired_below: int) -> bool:
    """Return whether more than half of the run's rows are expired. Needs no access to the file."""
    return piece.run.median_time < expired_below


def _tier(piece: _Piece) -> int:
    """Return the size class of a slice's run: each class spans a factor of four, and the lowest ends at 2,047 rows."""
    return max(0, piece.slice.run.rows.bit_length() - 10) // 2


def _tiers(pieces: Sequence[_Piece], limit: int | None) -> Iterator[tuple[Slice, ...]]:
    """Yield sequences of at least FAN neighbours of one size class that span at most `limit` of time (None: no
    limit)."""
    for _, stretch in groupby(pieces, key=_tier):
        part: list[_Piece] = []
        for piece in stretch:
            if limit is not None and part and piece.slice.run.max_time - part[0].start > limit:
                yield from _if_enough(part)
                part = []
            part.append(piece)
        yield from _if_enough(part)


def _if_enough(part: Sequence[_Piece]) -> Iterator[tuple[Slice, ...]]:
    """Yield the slices of `part` as one set if there are at least FAN of them."""
    if len(part) >= FAN:
        yield tuple(p.slice for p in part)
