"""Lateness per window: the windows of a row that are closed when it arrives, because they end at or below the
punctuation of earlier epochs.

Only rows below the punctuation need this check; all windows of other rows are open. An operator accepts a row as long
as one of its windows is open. If closed windows share state with open ones, an extra column of the row tells the
operator which windows to exclude.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.kernels.arrays import Flags, Indices, Times, Words
from penstock.operators.window.kinds import Session
from penstock.operators.window.windows import BLOCK_WINDOWS, Window
from penstock.progress.mark import MAX_TIME, Mark, saturate
from penstock.types import time_values

MISSED = "#missed"  # for sliding windows: the number of a row's windows, from the earliest, that are closed
SINCE = "#since"  # for sessions: the punctuation that a row arrived behind; sessions over by then exclude it


@dataclass(frozen=True)
class RowCloses:
    """A row is late as a whole if it is below the punctuation."""


@dataclass(frozen=True)
class NeverCloses:
    """No row is late: a window of rows holds the next rows, whatever their times."""


@dataclass(frozen=True)
class BorderCloses:
    """Rows whose column `time` is a border of a window of `size`: its start or, if `end`, its end."""

    time: str
    size: int
    end: bool


@dataclass(frozen=True)
class WindowCloses:
    """Rows in time windows. `shared`: overlapping windows share state, so rows carry the number of closed windows."""

    window: Window
    shared: bool


@dataclass(frozen=True)
class SessionCloses:
    """Rows in sessions. A row is late if the session `[time, time + gap)` is over."""

    session: Session


ClosingRule = RowCloses | NeverCloses | BorderCloses | WindowCloses | SessionCloses


@dataclass(frozen=True)
class Missed:
    """The closed windows of each row: their number, the start `first` of the first and the end `last` of the last of
    them. A row is `late` if none of its windows is open. Without windows, `first` and `last` are None."""

    windows: Times
    late: Flags
    first: Times | None = None
    last: Times | None = None


def missed(closing: ClosingRule, rows: pa.Table, mark: Mark) -> Missed:
    """Return the closed windows of rows below the punctuation `mark` on the time of `closing`."""
    count, bound = rows.num_rows, MAX_TIME if mark.ended else mark.at
    match closing:
        case RowCloses():
            return Missed(np.ones(count, np.int64), np.ones(count, np.bool_))
        case NeverCloses():
            return Missed(np.zeros(count, np.int64), np.zeros(count, np.bool_))
        case BorderCloses(time, size, end):
            times = time_values(rows.column(time))
            late, first = times < bound, times - size if end else times
            return Missed(late.astype(np.int64), late, first, first + size)
        case WindowCloses(window):
            return _of_windows(window, time_values(rows.column(window.time)), bound)
        case SessionCloses(session):
            times = time_values(rows.column(session.time))
            late = times <= saturate(bound - session.gap)
            return Missed(late.astype(np.int64), late, times, times + session.gap)


def _of_windows(window: Window, times: Times, bound: int) -> Missed:
    """Return the closed windows of each time: those of its windows that start below `opened`, the first start still
    open."""
    opened = saturate(window.first_start_ending_after(bound))
    first, last = window.starts_of(times)
    closed = np.minimum(last, saturate(opened - window.slide))
    windows = np.maximum((closed - first) // window.slide + 1, 0)
    return Missed(windows, (windows > 0) & (last < opened), first, closed + window.size)


def with_closed_windows(closing: ClosingRule, rows: pa.Table, found: Missed, mark: Mark) -> pa.Table:
    """Add the column by which the operator excludes rows from closed windows, if it needs one."""
    match closing:
        case WindowCloses(shared=True):
            return rows.append_column(MISSED, pa.array(found.windows.astype(np.int32)))
        case SessionCloses():
            return rows.append_column(SINCE, pa.array(np.full(rows.num_rows, mark.at, np.int64)))
        case _:
            return rows


MissedCounts = npt.NDArray[np.int32]


def with_missed(rows: pa.Table) -> pa.Table:
    """Add the column MISSED, filled with zeros, if the rows do not have it."""
    if MISSED in rows.column_names:
        return rows
    return rows.append_column(MISSED, pa.array(np.zeros(rows.num_rows, np.int32)))


def of_same_hash(hashes: Words, some: Flags) -> Flags:
    """Return flags of all rows that share a hash with a flagged row."""
    return np.isin(hashes, np.unique(hashes[some]))


def windows_of_each(
    window: Window, panes: Times, missed: MissedCounts | None, starts: tuple[int, int], most: int = BLOCK_WINDOWS
) -> Iterator[tuple[Indices, Times]]:
    """Yield pairs of a pane and the start of a window that contains it, was not missed, and starts within `starts`.

    The pairs come in pieces of about `most`; no window is split between pieces.
    """
    first, last = window.starts_of(panes)
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
