"""Complete rows: those whose time a mark has passed. For operators that hold rows back until then."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from penstock.operators.arrange import times_of
from penstock.operators.protocol import Stored
from penstock.progress.mark import MAX_TIME, Mark


def completed(stored: Iterable[Stored], after: Mark, upto: Mark) -> list[pa.Table]:
    """Return the state rows that are complete at `upto` but were not at `after`."""
    return [
        _between(piece, after, upto)
        for piece in stored
        if upto.is_beyond(piece.least) and not after.is_beyond(piece.largest)
    ]


def completes(after: Mark, upto: Mark, least: int | None) -> bool:
    """Return whether rows may be complete at `upto` that were not at `after`. `least` is the least time of all (None:
    no rows)."""
    return least is not None and after < upto and upto.is_beyond(max(after.at, least))


def completed_below(mark: Mark) -> int:
    """Return the time below which rows are complete."""
    return MAX_TIME if mark.ended else mark.at


def _between(piece: Stored, after: Mark, upto: Mark) -> pa.Table:
    """Return the rows of a slice that are complete at `upto` but were not at `after`. Avoids a copy if these are all
    rows."""
    if not after.is_beyond(piece.least) and upto.is_beyond(piece.largest):
        return piece.rows
    times = times_of(piece.rows)
    inside = times >= after.at
    if not upto.ended:
        inside &= times < upto.at
    return piece.rows.filter(pa.array(inside))
