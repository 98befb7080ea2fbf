"""The assignment of windows: each row once for every window it is in."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from penstock.operators.window.windows import Window
from penstock.plan.schema import WINDOW_END, WINDOW_START
from penstock.types import time_array, time_values


def assign(rows: pa.Table, window: Window) -> pa.Table:
    """The rows with the borders of their windows behind their columns. A row between two windows vanishes."""
    times = time_values(rows.column(window.time))
    into = (times - window.offset) % window.slide  # how far each row is into the window that started last
    counts = np.maximum(-((into - window.size) // window.slide), 0)
    starts = times - into
    if not np.all(counts == 1):
        copies = np.repeat(np.arange(len(times)), counts)
        back = np.arange(len(copies)) - np.repeat(np.cumsum(counts) - counts, counts)
        rows, starts = rows.take(pa.array(copies)), starts[copies] - back * window.slide
    type_ = rows.schema.field(window.time).type
    rows = rows.append_column(WINDOW_START, time_array(starts, type_))
    return rows.append_column(WINDOW_END, time_array(starts + window.size, type_))
