"""Marks over hash ranges: how far each part of a site's groups has come. Pure functions over sorted ranges.

A work item is any range of hashes; when it is done, the marks of just that range move on. Neighbours that have come
equally far are one range again, whatever lies between them: those hashes are not the site's, so what is said of them
does not matter. A site without pending work has one range of marks, however scattered its groups are.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence

from penstock.checkpoint.manifest import RangeMark
from penstock.operators.protocol import Marks
from penstock.progress.mark import BEGIN
from penstock.progress.substreams import low_water_mark
from penstock.state.hash_ranges import HashRange, remaining


def starting_marks(ranges: Iterable[HashRange], tracks: int) -> tuple[RangeMark, ...]:
    return normal(RangeMark(r, (BEGIN,) * tracks) for r in ranges)


def normal(marks: Iterable[RangeMark]) -> tuple[RangeMark, ...]:
    """The marks of all that a site has, in order of range, neighbours with equal marks joined."""
    joined: list[RangeMark] = []
    for m in sorted(marks, key=lambda m: m.range.low):
        if joined and joined[-1].marks == m.marks:
            joined[-1] = RangeMark(HashRange(joined[-1].range.low, m.range.high), m.marks)
        else:
            joined.append(m)
    return tuple(joined)


def moved_to(marks: Iterable[RangeMark], parts: Iterable[HashRange], reached: Marks) -> tuple[RangeMark, ...]:
    """Return the marks after the work on `parts`, which do not overlap, is done up to `reached`."""
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
    """The marks of the given ranges, apart from each other: others may lie in between at a new home."""
    return [RangeMark(both, m.marks) for m in marks for part in ranges if (both := m.range.intersect(part)) is not None]


def least(marks: Sequence[RangeMark], tracks: int) -> Marks:
    """How far all of it has come on every track; the end, where there is nothing."""
    return tuple(low_water_mark(m.marks[track] for m in marks) for track in range(tracks))


def behind(marks: Marks, upto: Marks) -> bool:
    """Whether some track has not come as far as `upto`."""
    return any(mark < bound for mark, bound in zip(marks, upto, strict=True))
