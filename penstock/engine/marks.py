"""Marks over hash ranges: the progress of each part of a site's hashes. Pure functions over sorted ranges.

A work item covers any range of hashes; when it is done, only the marks of that range advance. Neighbouring ranges with
equal marks are joined even if there is a gap between them: the hashes in the gap belong to other sites, so the marks
there have no effect. A site without pending work therefore has one range of marks, however scattered its groups are.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence

from penstock.operators.protocol import Marks
from penstock.progress.mark import BEGIN
from penstock.progress.substreams import low_water_mark
from penstock.state.hash_ranges import HashRange, remaining
from penstock.state.model import RangeMark


def starting_marks(ranges: Iterable[HashRange], tracks: int) -> tuple[RangeMark, ...]:
    """Return the marks of ranges in which nothing has been done yet: BEGIN on each of `tracks` tracks."""
    return normal(RangeMark(r, (BEGIN,) * tracks) for r in ranges)


def normal(marks: Iterable[RangeMark]) -> tuple[RangeMark, ...]:
    """Return the marks of a site sorted by range, with neighbours of equal marks joined."""
    joined: list[RangeMark] = []
    for m in sorted(marks, key=lambda m: m.range.low):
        if joined and joined[-1].marks == m.marks:
            joined[-1] = RangeMark(HashRange(joined[-1].range.low, m.range.high), m.marks)
        else:
            joined.append(m)
    return tuple(joined)


def moved_to(marks: Iterable[RangeMark], parts: Iterable[HashRange], reached: Marks) -> tuple[RangeMark, ...]:
    """Return the marks after the work on `parts`, which must not overlap, is done up to `reached`."""
    done = sorted(parts)
    if not done:
        return tuple(marks)
    lows = [part.low for part in done]
    others = []
    for m in marks:
        near = done[max(0, bisect_right(lows, m.range.low) - 1) : bisect_left(lows, m.range.high)]
        others += [RangeMark(left, m.marks) for left in remaining([m.range], near)]
    return normal([*(RangeMark(part, reached) for part in done), *others])


def restricted(marks: Iterable[RangeMark], ranges: Sequence[HashRange]) -> list[RangeMark]:
    """Return the marks of the given ranges only. They are not joined: at a new site, other ranges may lie between
    them."""
    return [RangeMark(both, m.marks) for m in marks for part in ranges if (both := m.range.intersect(part)) is not None]


def least(marks: Sequence[RangeMark], tracks: int) -> Marks:
    """Return the low-water mark of each track; END on all tracks if `marks` is empty."""
    return tuple(low_water_mark(m.marks[track] for m in marks) for track in range(tracks))


def behind(marks: Marks, upto: Marks) -> bool:
    """Return whether `marks` is below `upto` on some track."""
    return any(mark < bound for mark, bound in zip(marks, upto, strict=True))
