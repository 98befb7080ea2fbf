"""From the panes of each key to its windows: which windows hold a row at all, and which panes each of them holds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from penstock.kernels.arrays import Flags, Indices, Times
from penstock.kernels.segments import Segments
from penstock.operators.window.windows import Window
from penstock.progress.mark import Mark, saturate

BLOCK = 1 << 18  # windows that are written down at a time


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


@dataclass(frozen=True)
class WindowBlock:
    """Some neighbouring windows: their panes as ranges of the rows `rows` (None: of all, as they stand), and their
    starts."""

    rows: Indices | None
    segments: Segments
    starts: Times


def windows_over(
    window: Window, panes: Times, heads: Flags, order: Indices | None, starts: tuple[int, int]
) -> Iterator[WindowBlock]:
    """The windows that hold some pane and start within `starts`, by key and start, in blocks of bounded size: a row may
    be in very many.

    `panes` are in an order in which each key has its own together, rising; `heads` says where a key begins. That order
    is `order` with respect to the rows that the segments are about.
    """
    first, last = _added_by_each_pane(window, panes, heads)
    first, last = np.maximum(first, starts[0]), np.minimum(last, starts[1])
    # A window is added by its first pane, so that pane is where its range begins.
    counts = np.where(first <= last, (last - first) // window.slide + 1, 0)
    behind = np.cumsum(counts)
    total, ends = int(behind[-1]) if len(behind) else 0, _RangeEnds.of(window, panes, heads)
    for low in range(0, total, BLOCK):
        numbers = range(low, min(low + BLOCK, total))
        lo, nth = _numbered(counts, behind, numbers)
        window_starts = first[lo] + nth * window.slide
        segments = Segments(order, lo, ends.of_windows(lo, window_starts + window.size))
        yield WindowBlock(None, segments, window_starts) if total <= BLOCK else _narrowed(segments, window_starts)


def _numbered(counts: Indices, behind: Indices, numbers: range) -> tuple[Indices, Indices]:
    """For windows of some numbers the pane that adds them, and which of its windows they are."""
    first, last = (int(np.searchsorted(behind, n, "right")) for n in (numbers.start, numbers.stop - 1))
    panes = np.arange(first, last + 1)
    begins = behind[panes] - counts[panes]
    inside = np.minimum(behind[panes], numbers.stop) - np.maximum(begins, numbers.start)
    return np.repeat(panes, inside), np.arange(numbers.start, numbers.stop) - np.repeat(begins, inside)


def _narrowed(segments: Segments, starts: Times) -> WindowBlock:
    """A block that reads only the rows it is about: kernels look at all rows that they are given."""
    first, last = int(segments.lo[0]), int(segments.hi[-1])
    rows = np.arange(first, last) if segments.order is None else segments.order[first:last]
    return WindowBlock(rows, Segments(None, segments.lo - first, segments.hi - first), starts)


def _added_by_each_pane(window: Window, panes: Times, heads: Flags) -> tuple[Times, Times]:
    """The first and the last start of the windows that hold a pane but not the pane before it of the same key. Counts
    back from the last window, since the time one window earlier need not be a 64-bit time."""
    into_last = (panes - window.offset) % window.slide
    last = panes - into_last
    first = last - (window.size - 1 - into_last) // window.slide * window.slide
    known = last[:-1] + window.slide
    first[1:] = np.where(heads[1:], first[1:], np.maximum(first[1:], known))
    return first, last


@dataclass(frozen=True)
class _RangeEnds:
    """Where the panes of windows end. `places` are the panes as numbers that rise with key and pane, `keys` the number
    of each pane's key, counted from 0."""

    window: Window
    panes: Times
    keys: Indices
    numbers: _PaneNumbers
    places: Indices

    @classmethod
    def of(cls, window: Window, panes: Times, heads: Flags) -> _RangeEnds:
        keys, numbers = np.cumsum(heads) - 1, _PaneNumbers.of(panes, window.pane)
        return cls(window, panes, keys, numbers, keys * numbers.many + numbers.of_panes(panes))

    def of_windows(self, lo: Indices, ends: Times) -> Indices:
        """Behind the last pane that its key has of each window, which begins with the pane `lo` and has this end."""
        if self.window.size == self.window.pane:
            return lo + 1
        return np.searchsorted(self.places, self.keys[lo] * self.numbers.many + self.numbers.of_ends(ends))


@dataclass(frozen=True)
class _PaneNumbers:
    """Small numbers for panes and window ends that compare as they do, all below `many`. `distinct` are the panes where
    they lie too far apart to be counted through."""

    least: int
    width: int
    many: int
    distinct: Times | None

    @classmethod
    def of(cls, panes: Times, width: int) -> _PaneNumbers:
        least, greatest = int(panes.min()), int(panes.max())
        many = (greatest - least) // width + 2
        if many * len(panes) < 2**62 and greatest - least < 2**62:
            return cls(least, width, many, None)
        distinct = np.unique(panes)
        return cls(least, width, len(distinct) + 1, distinct)

    def of_panes(self, panes: Times) -> Indices:
        if self.distinct is not None:
            return np.searchsorted(self.distinct, panes)
        return (panes - self.least) // self.width

    def of_ends(self, ends: Times) -> Indices:
        if self.distinct is not None:
            return np.searchsorted(self.distinct, ends)
        return np.minimum((ends - self.least) // self.width, self.many - 1)
