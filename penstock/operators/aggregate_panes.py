"""From the panes of each key to its windows: which windows hold a row at all, and which panes each of them holds."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from penstock.operators.aggregate_segments import Indices, Segments
from penstock.operators.window import Times, Window
from penstock.progress.mark import Mark, saturate

Flags = npt.NDArray[np.bool_]


def in_some_window(window: Window, times: Times) -> Flags:
    """Which times lie in a window; with a slide above the size there are gaps."""
    return (times - window.offset) % window.slide < window.size


def closing_starts(window: Window, after: Mark, upto: Mark) -> tuple[int, int] | None:
    """The least and the greatest start of a window whose end is in (after, upto]; None if there is none."""
    if after.ended:
        return None
    least = saturate(window.first_start_ending_after(after.at))
    greatest = window.latest if upto.ended else saturate(window.last_start_at_or_before(upto.at - window.size))
    return (least, greatest) if least <= greatest else None


def windows_over(
    window: Window, panes: Times, heads: Flags, order: Indices | None, starts: tuple[int, int]
) -> tuple[Segments, Times]:
    """The windows that hold some pane and start within `starts`: their panes, and their starts, by key and start.

    `panes` are in an order in which each key has its own together, rising; `heads` says where a key begins. That order
    is `order` with respect to the rows that the segments are about.
    """
    first, last = _added_by_each_pane(window, panes, heads)
    first, last = np.maximum(first, starts[0]), np.minimum(last, starts[1])
    counts = np.where(first <= last, (last - first) // window.slide + 1, 0)
    # A window is added by its first pane, so that pane is where its range begins.
    lo = np.repeat(np.arange(len(panes)), counts)
    nth = np.arange(len(lo)) - np.repeat(np.cumsum(counts) - counts, counts)
    window_starts = first[lo] + nth * window.slide
    return Segments(order, lo, _range_ends(window, panes, heads, lo, window_starts)), window_starts


def _added_by_each_pane(window: Window, panes: Times, heads: Flags) -> tuple[Times, Times]:
    """The first and the last start of the windows that hold a pane but not the pane before it of the same key. Counts
    back from the last window, since the time one window earlier need not be a 64-bit time."""
    into_last = (panes - window.offset) % window.slide
    last = panes - into_last
    first = last - (window.size - 1 - into_last) // window.slide * window.slide
    known = last[:-1] + window.slide
    first[1:] = np.where(heads[1:], first[1:], np.maximum(first[1:], known))
    return first, last


def _range_ends(window: Window, panes: Times, heads: Flags, lo: Indices, starts: Times) -> Indices:
    """Behind the last pane of each window that its key has."""
    if window.size == window.pane:
        return lo + 1
    keys = np.cumsum(heads) - 1
    numbers, ends, many = _pane_numbers(panes, starts + window.size, window.pane)
    return np.searchsorted(keys * many + numbers, keys[lo] * many + ends)


def _pane_numbers(panes: Times, ends: Times, width: int) -> tuple[Indices, Indices, int]:
    """Small numbers for panes and window ends that compare as they do, and a bound that they are all below."""
    least, greatest = int(panes.min()), int(panes.max())
    many = (greatest - least) // width + 2
    if many * len(panes) < 2**62 and greatest - least < 2**62:
        return (panes - least) // width, np.minimum((ends - least) // width, many - 1), many
    distinct, numbers = np.unique(panes, return_inverse=True)
    return numbers, np.searchsorted(distinct, ends), len(distinct) + 1
