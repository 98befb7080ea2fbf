"""Partials of rows that came late: they are in the later windows of their pane, and not in the first few."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.operators.aggregate_panes import Flags
from penstock.operators.aggregate_segments import Indices
from penstock.operators.lateness import MISSED, window_starts
from penstock.operators.window import Times, Window
from penstock.state.hash import Words

Missing = npt.NDArray[np.int32]

_MOST = 1 << 20  # panes times windows in one piece, unless a single window has more


def with_missed(rows: pa.Table) -> pa.Table:
    """The rows with the column MISSED, also where they have missed nothing."""
    if MISSED in rows.column_names:
        return rows
    return rows.append_column(MISSED, pa.array(np.zeros(rows.num_rows, np.int32)))


def in_words(missed: Missing | None) -> list[Words]:
    """What must be compared to tell partials of one key and pane apart."""
    return [] if missed is None else [missed.astype(np.uint64)]


def of_same_hash(hashes: Words, some: Flags) -> Flags:
    """All rows that have the hash of one of some."""
    return np.isin(hashes, np.unique(hashes[some]))


def windows_of_each(
    window: Window, panes: Times, missed: Missing | None, starts: tuple[int, int]
) -> Iterator[tuple[Indices, Times]]:
    """Each pane once for every window that it is in, has not missed, and that starts within `starts`; in pieces of
    bounded size, each with all panes of its windows."""
    first, last = window_starts(window, panes)
    if missed is not None:
        first = first + missed * np.int64(window.slide)
    first, last = np.maximum(first, starts[0]), np.minimum(last, starts[1])
    counts = np.where(first <= last, (last - first) // window.slide + 1, 0)
    many = (starts[1] - starts[0]) // window.slide
    if counts.sum() > _MOST and many:
        middle = starts[0] + many // 2 * window.slide
        yield from windows_of_each(window, panes, missed, (starts[0], middle))
        yield from windows_of_each(window, panes, missed, (middle + window.slide, starts[1]))
    elif counts.any():
        rows = np.repeat(np.arange(len(panes)), counts)
        nth = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
        yield rows, first[rows] + nth * window.slide
