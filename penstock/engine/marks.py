"""Marks over hash ranges: how far each part of a site's groups has come. Pure functions over sorted ranges.

A work item is any range of hashes; when it is done, the mark of just that range moves on. Neighbours that have come
equally far are one range again, so a site without pending work has one mark.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from penstock.checkpoint.manifest import RangeMark
from penstock.progress.mark import BEGIN, Mark
from penstock.progress.rules import low_water_mark
from penstock.state.directory import HashRange


def starting_marks(ranges: Iterable[HashRange]) -> tuple[RangeMark, ...]:
    return normal(RangeMark(r, BEGIN) for r in ranges)


def normal(marks: Iterable[RangeMark]) -> tuple[RangeMark, ...]:
    """In order of range, touching ranges of equal mark joined."""
    joined: list[RangeMark] = []
    for m in sorted(marks, key=lambda m: m.range):
        if joined and joined[-1].range.high == m.range.low and joined[-1].mark == m.mark:
            joined[-1] = RangeMark(HashRange(joined[-1].range.low, m.range.high), m.mark)
        else:
            joined.append(m)
    return tuple(joined)


def moved_to(marks: Iterable[RangeMark], part: HashRange, mark: Mark) -> tuple[RangeMark, ...]:
    """The marks after the work on `part` is done up to `mark`."""
    pieces = [RangeMark(part, mark)]
    for m in marks:
        if m.range.low < part.low and (left := m.range.intersect(HashRange(m.range.low, part.low))):
            pieces.append(RangeMark(left, m.mark))
        if part.high < m.range.high and (right := m.range.intersect(HashRange(part.high, m.range.high))):
            pieces.append(RangeMark(right, m.mark))
    return normal(pieces)


def restricted(marks: Iterable[RangeMark], ranges: Sequence[HashRange]) -> tuple[RangeMark, ...]:
    """The marks of the given ranges: what a new home is told."""
    return normal(
        RangeMark(common, m.mark) for m in marks for part in ranges if (common := m.range.intersect(part)) is not None
    )


def least(marks: Iterable[RangeMark]) -> Mark:
    """How far all of it has come; the end, where there is nothing."""
    return low_water_mark(m.mark for m in marks)
