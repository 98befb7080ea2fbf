"""Which windows of a row are closed when it comes: those whose end is at or below the punctuation of earlier epochs.

Only rows below the punctuation are looked at here: all windows of the others are open. An operator takes a row as long
as one of its windows is open. Where the closed ones share state with the open ones, a further column of the row tells
the operator which of them to leave out.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.kernels.arrays import Flags, Times
from penstock.operators.window.kinds import Session
from penstock.operators.window.windows import Window
from penstock.progress.mark import MAX_TIME, Mark, saturate
from penstock.types import time_values

MISSED = "#missed"  # of a row for a sliding window: how many of its windows, from the earliest on, leave it out
SINCE = "#since"  # of a row for a session: the punctuation it came behind; sessions that ended by then leave it out


@dataclass(frozen=True)
class RowCloses:
    """A row is late as a whole below the punctuation."""


@dataclass(frozen=True)
class NeverCloses:
    """No row is late: a window of rows holds the next rows, whenever they happened."""


@dataclass(frozen=True)
class BorderCloses:
    """Rows with the border of a window in the column `time`: the start of a window of `size`, or its `end`."""

    time: str
    size: int
    end: bool


@dataclass(frozen=True)
class WindowCloses:
    """Rows in windows of time. `shared`: windows that overlap share state, so the operator is told which are closed."""

    window: Window
    shared: bool


@dataclass(frozen=True)
class SessionCloses:
    """Rows in sessions. Each opens one that ends a gap after it."""

    session: Session


Closing = RowCloses | NeverCloses | BorderCloses | WindowCloses | SessionCloses


@dataclass(frozen=True)
class Missed:
    """The closed windows of each row, `windows` in number, from the start `first` to the end `last`; a row is `late`
    where none of its windows is open. Where there are no windows, `first` and `last` are None."""

    windows: Times
    late: Flags
    first: Times | None = None
    last: Times | None = None


def missed(closing: Closing, rows: pa.Table, mark: Mark) -> Missed:
    """What rows have missed that come behind the punctuation `mark` on the time that `closing` goes by."""
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
    """A row is in the windows with starts from `first` to `last`, of which those below `opened` are closed."""
    opened = saturate(window.first_start_ending_after(bound))
    first, last = window_starts(window, times)
    closed = np.minimum(last, saturate(opened - window.slide))
    windows = np.maximum((closed - first) // window.slide + 1, 0)
    return Missed(windows, (windows > 0) & (last < opened), first, closed + window.size)


def window_starts(window: Window, times: Times) -> tuple[Times, Times]:
    """The starts of the first and the last window that hold each time; in a gap between windows the first is above the
    last."""
    into_last = (times - window.offset) % window.slide
    last = times - into_last
    return last - (window.size - 1 - into_last) // window.slide * window.slide, last


def told(closing: Closing, rows: pa.Table, found: Missed, mark: Mark) -> pa.Table:
    """The rows with the column by which the operator leaves them out of closed windows, if it needs one."""
    match closing:
        case WindowCloses(shared=True):
            return rows.append_column(MISSED, pa.array(found.windows.astype(np.int32)))
        case SessionCloses():
            return rows.append_column(SINCE, pa.array(np.full(rows.num_rows, mark.at, np.int64)))
        case _:
            return rows
