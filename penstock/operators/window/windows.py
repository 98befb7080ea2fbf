"""Time windows and the panes they consist of.

A window is half-open, `[start, start + size)`, where `start` is `offset` plus a multiple of `slide`, rounded down also
before 1970. A pane is the widest span of time that no window border cuts. Every window is a whole number of panes, so a
row is processed once, in its pane, however many windows contain it.

From the panes of each key to its windows: the windows that hold a row, the panes of each window, and the panes that
occur in only one of several tables and so need no merge.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
import pyarrow as pa

from penstock.errors import QueryError
from penstock.kernels.arrays import Flags, Indices, Times
from penstock.kernels.segments import Segments
from penstock.operators.arrange import times_of
from penstock.operators.protocol import Stored
from penstock.progress.mark import MAX_TIME, MIN_TIME, Mark, saturate

BLOCK_WINDOWS = 1 << 18  # windows that are materialised at a time


@dataclass(frozen=True)
class Window:
    """A tumbling or sliding window over the time column `time`.

    Invariant: size > 0, slide > 0, 0 <= offset < slide. Spans are in the unit of the time column (microseconds for a
    TIMESTAMP).
    """

    time: str
    size: int
    slide: int
    offset: int = 0

    def __post_init__(self) -> None:
        if self.size <= 0 or self.slide <= 0:
            raise QueryError(
                "a window needs a size and a slide above zero",
                detail=f"size {self.size}, slide {self.slide}",
                hint="write the larger one as the size, as in HOP(t, ts, INTERVAL '10' SECOND, INTERVAL '1' MINUTE)",
            )
        object.__setattr__(self, "offset", self.offset % self.slide)

    @property
    def per_row(self) -> int:
        """Return the largest number of windows that contain one row."""
        return -(-self.size // self.slide)

    @property
    def pane(self) -> int:
        """Return the width of a pane."""
        return math.gcd(self.size, self.slide)

    @property
    def earliest(self) -> int:
        """Return the least event time whose windows all fit 64-bit times."""
        return MIN_TIME + self.size + self.slide

    @property
    def latest(self) -> int:
        """Return the largest event time whose windows all fit 64-bit times."""
        return MAX_TIME - self.size - self.slide

    def pane_starts(self, times: Times) -> Times:
        """Return the start of the pane of each time. The times must lie between `earliest` and `latest`."""
        shift = self.offset % self.pane
        starts = times - shift
        starts //= self.pane  # in place, because an allocation costs more than the arithmetic
        starts *= self.pane
        starts += shift
        return starts

    def starts_of(self, times: Times) -> tuple[Times, Times]:
        """Return the starts of the first and the last window that contain each time. For a time in a gap between
        windows, the first is above the last. Counts back from the last window, because the time one window earlier may
        not fit 64 bits."""
        into_last = (times - self.offset) % self.slide
        last = times - into_last
        return last - (self.size - 1 - into_last) // self.slide * self.slide, last

    def first_start_ending_after(self, time: int) -> int:
        """Return the start of the first window that ends above `time`."""
        return (time - self.size - self.offset) // self.slide * self.slide + self.slide + self.offset

    def last_start_at_or_before(self, time: int) -> int:
        """Return the start of the last window that starts at or before `time`."""
        return (time - self.offset) // self.slide * self.slide + self.offset


def in_some_window(window: Window, times: Times) -> Flags:
    """Return flags of the times that lie in a window. If the slide exceeds the size, there are gaps."""
    return (times - window.offset) % window.slide < window.size


def closing_starts(window: Window, after: Mark, upto: Mark) -> tuple[int, int] | None:
    """Return the least and the greatest start of the windows that end in (after, upto]; None if there are none."""
    if after.ended:
        return None
    least = saturate(window.first_start_ending_after(after.at))
    greatest = window.latest if upto.ended else saturate(window.last_start_at_or_before(upto.at - window.size))
    return (least, greatest) if least <= greatest else None


@dataclass(frozen=True)
class WindowBlock:
    """Consecutive windows: their panes as segments over the rows `rows` (None: all rows), and their starts."""

    rows: Indices | None
    segments: Segments
    starts: Times


def windows_over(
    window: Window, panes: Times, heads: Flags, order: Indices | None, starts: tuple[int, int]
) -> Iterator[WindowBlock]:
    """Yield the windows that hold a pane and start within `starts`, by key and start, in blocks of bounded size,
    because a row may be in very many windows.

    The panes of each key must be contiguous and ascending; `heads` flags the first pane of each key. `order` maps
    positions of `panes` to rows (None: they are equal); the segments use it.
    """
    first, last = _added_by_each_pane(window, panes, heads)
    first, last = np.maximum(first, starts[0]), np.minimum(last, starts[1])
    # Each window is added by its first pane, so its range begins at that pane.
    counts = np.where(first <= last, (last - first) // window.slide + 1, 0)
    behind = np.cumsum(counts)
    total, ends = int(behind[-1]) if len(behind) else 0, _RangeEnds.of(window, panes, heads)
    for low in range(0, total, BLOCK_WINDOWS):
        numbers = range(low, min(low + BLOCK_WINDOWS, total))
        lo, nth = _numbered(counts, behind, numbers)
        window_starts = first[lo] + nth * window.slide
        segments = Segments(order, lo, ends.of_windows(lo, window_starts + window.size))
        block = WindowBlock(None, segments, window_starts)
        yield block if total <= BLOCK_WINDOWS else _narrowed(segments, window_starts)


def _numbered(counts: Indices, behind: Indices, numbers: range) -> tuple[Indices, Indices]:
    """Return, for the windows with these numbers, the pane that adds each, and the window's ordinal among those of the
    pane."""
    first, last = (int(np.searchsorted(behind, n, "right")) for n in (numbers.start, numbers.stop - 1))
    panes = np.arange(first, last + 1)
    begins = behind[panes] - counts[panes]
    inside = np.minimum(behind[panes], numbers.stop) - np.maximum(begins, numbers.start)
    return np.repeat(panes, inside), np.arange(numbers.start, numbers.stop) - np.repeat(begins, inside)


def _narrowed(segments: Segments, starts: Times) -> WindowBlock:
    """Return a block over only the rows it needs, because kernels process all rows they are given."""
    first, last = int(segments.lo[0]), int(segments.hi[-1])
    rows = np.arange(first, last) if segments.order is None else segments.order[first:last]
    return WindowBlock(rows, Segments(None, segments.lo - first, segments.hi - first), starts)


def _added_by_each_pane(window: Window, panes: Times, heads: Flags) -> tuple[Times, Times]:
    """Return the first and the last start of the windows that hold a pane but not the previous pane of its key."""
    first, last = window.starts_of(panes)
    known = last[:-1] + window.slide
    first[1:] = np.where(heads[1:], first[1:], np.maximum(first[1:], known))
    return first, last


@dataclass(frozen=True)
class _RangeEnds:
    """The ends of windows' pane ranges. `places` are ascending numbers of the panes by key and pane; `keys` numbers the
    key of each pane from 0."""

    window: Window
    panes: Times
    keys: Indices
    numbers: _PaneNumbers
    places: Indices

    @classmethod
    def of(cls, window: Window, panes: Times, heads: Flags) -> _RangeEnds:
        """Number the panes. `heads` flags the first pane of each key."""
        keys, numbers = np.cumsum(heads) - 1, _PaneNumbers.of(panes, window.pane)
        return cls(window, panes, keys, numbers, keys * numbers.many + numbers.of_panes(panes))

    def of_windows(self, lo: Indices, ends: Times) -> Indices:
        """Return the position after the last pane of each window, which begins with pane `lo` and ends at `ends`."""
        if self.window.size == self.window.pane:
            return lo + 1
        return np.searchsorted(self.places, self.keys[lo] * self.numbers.many + self.numbers.of_ends(ends))


@dataclass(frozen=True)
class _PaneNumbers:
    """Small integers below `many` for panes and window ends that compare like them. `distinct` has the sorted panes if
    they are too far apart to be numbered by division."""

    least: int
    width: int
    many: int
    distinct: Times | None

    @classmethod
    def of(cls, panes: Times, width: int) -> _PaneNumbers:
        """Return the numbering of `panes`, which must not be empty."""
        least, greatest = int(panes.min()), int(panes.max())
        many = (greatest - least) // width + 2
        if many * len(panes) < 2**62 and greatest - least < 2**62:
            return cls(least, width, many, None)
        distinct = np.unique(panes)
        return cls(least, width, len(distinct) + 1, distinct)

    def of_panes(self, panes: Times) -> Indices:
        """Return the number of each pane."""
        if self.distinct is not None:
            return np.searchsorted(self.distinct, panes)
        return (panes - self.least) // self.width

    def of_ends(self, ends: Times) -> Indices:
        """Return the number of the first pane at or after each window end."""
        if self.distinct is not None:
            return np.searchsorted(self.distinct, ends)
        return np.minimum((ends - self.least) // self.width, self.many - 1)


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
    return rows.take(np.flatnonzero(which))
