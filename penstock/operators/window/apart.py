"""Panes that occur in only one of several tables of partials, and so need no merge."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import numpy as np
import pyarrow as pa

from penstock.kernels.arrays import Flags
from penstock.operators.arrange import times_of
from penstock.operators.protocol import Stored
from penstock.progress.mark import MAX_TIME, MIN_TIME


def apart(parts: Sequence[Stored]) -> tuple[list[pa.Table], list[pa.Table]]:
    """Return the rows of panes that no other table overlaps, and the remaining rows, both table by table."""
    ordered = sorted(parts, key=lambda part: part.least)
    reached = accumulate((part.largest for part in ordered), max, initial=MIN_TIME - 1)
    begins = [*(part.least for part in ordered[1:]), MAX_TIME + 1]
    cut = [_cut(part, before + 1, behind) for part, before, behind in zip(ordered, reached, begins, strict=False)]
    return [alone for alone, _ in cut if alone.num_rows], [shared for _, shared in cut if shared.num_rows]


def _cut(part: Stored, low: int, high: int) -> tuple[pa.Table, pa.Table]:
    """Return the rows with `low` <= #time < `high`, and the others."""
    nothing = part.rows.slice(0, 0)
    if low <= part.least and part.largest < high:
        return part.rows, nothing
    if part.largest < low or part.least >= high or low >= high:
        return nothing, part.rows
    times = times_of(part.rows)
    inside = (times >= low) & (times < high)
    return chosen(part.rows, inside), chosen(part.rows, ~inside)


def chosen(rows: pa.Table, which: Flags) -> pa.Table:
    """Return the flagged rows of a table. For scattered rows `take` is faster than `filter`."""
    return rows.take(pa.array(np.flatnonzero(which)))
