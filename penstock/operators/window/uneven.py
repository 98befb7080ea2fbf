"""Partials of late rows, which belong to the later windows of their pane but not to the first few."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.kernels.arrays import Flags, Indices, Times, Words
from penstock.operators.window.lateness import MISSED, window_starts
from penstock.operators.window.panes import BLOCK
from penstock.operators.window.windows import Window

Missing = npt.NDArray[np.int32]


def with_missed(rows: pa.Table) -> pa.Table:
    """Add the column MISSED, filled with zeros, if the rows do not have it."""
    if MISSED in rows.column_names:
        return rows
    return rows.append_column(MISSED, pa.array(np.zeros(rows.num_rows, np.int32)))


def in_words(missed: Missing | None) -> list[Words]:
    """Return the words that distinguish partials of one key and pane by the number of missed windows."""
    return [] if missed is None else [missed.astype(np.uint64)]


def of_same_hash(hashes: Words, some: Flags) -> Flags:
    """Return flags of all rows that share a hash with a flagged row."""
    return np.isin(hashes, np.unique(hashes[some]))


def windows_of_each(
    window: Window, panes: Times, missed: Missing | None, starts: tuple[int, int], most: int = BLOCK
) -> Iterator[tuple[Indices, Times]]:
    """Yield pairs of a pane and the start of a window that contains it, was not missed, and starts within `starts`.

    The pairs come in pieces of about `most`; no window is split between pieces.
    """
    first, last = window_starts(window, panes)
    if missed is not None:
        first = first + missed * np.int64(window.slide)
    # A bound of `starts` that saturated at 64 bits is not the start of a window; the starts of panes are.
    left = [(max(starts[0], int(first.min())), min(starts[1], int(last.max())))] if len(panes) else []
    while left:
        low, high = left.pop()
        begins, ends = np.maximum(first, low), np.minimum(last, high)
        counts = np.where(begins <= ends, (ends - begins) // window.slide + 1, 0)
        total, windows = int(counts.sum()), (high - low) // window.slide + 1
        if total > most and windows > 1:
            middle = low + windows // 2 * window.slide
            left += [(middle, high), (low, middle - window.slide)]
        elif total:
            rows = np.repeat(np.arange(len(panes)), counts)
            nth = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
            yield rows, begins[rows] + nth * window.slide
