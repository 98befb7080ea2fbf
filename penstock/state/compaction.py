"""Compaction: which slices of a site are worth rewriting as one run. Pure; the site step does the rewriting.

Neighbours in time are merged, up to half of the time that is alive, so that expiry can still drop whole runs. A run
under half alive is rewritten. Where disorder makes every run as broad as all that is alive, time cannot keep them
apart, and broad runs are merged with each other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from penstock.state.runs import Slice

FAN = 4  # so many runs of similar size become one
MOST_SLICES = 24  # past this, neighbours are merged whatever their size


@dataclass(frozen=True)
class _Piece:
    slice: Slice
    start: int  # where the part that is alive begins
    broad: bool


def choose(slices: Sequence[Slice], expired_below: int, window: int) -> list[tuple[Slice, ...]]:
    """Sets of slices to be rewritten, each as one run. No slice is in two sets."""
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
    start = max(piece.run.min_time, expired_below)
    return _Piece(piece, start, piece.run.max_time - start > limit)


def _mostly_dead(piece: Slice, expired_below: int) -> bool:
    return piece.run.median_time < expired_below


def _tier(piece: _Piece) -> int:
    return max(0, piece.slice.run.rows.bit_length() - 10) // 2


def _tiers(pieces: Sequence[_Piece], limit: int | None) -> Iterator[tuple[Slice, ...]]:
    """Stretches of at least FAN neighbours of one size class that together span at most `limit` (None: no limit)."""
    for _, stretch in groupby(pieces, key=_tier):
        part: list[_Piece] = []
        for piece in stretch:
            if limit is not None and part and piece.slice.run.max_time - part[0].start > limit:
                yield from _if_enough(part)
                part = []
            part.append(piece)
        yield from _if_enough(part)


def _if_enough(part: Sequence[_Piece]) -> Iterator[tuple[Slice, ...]]:
    if len(part) >= FAN:
        yield tuple(p.slice for p in part)
