"""The work list of a site: what is due, in which order, in items of bounded size; and how much of it fits an epoch."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from penstock.checkpoint.manifest import RangeMark
from penstock.engine.marks import behind
from penstock.engine.task.site.view import StateView
from penstock.engine.wire.job import Limits
from penstock.operators.protocol import Marks, Operator
from penstock.state.hash_ranges import HASH_END, HashRange, apart, common, remaining


@dataclass(frozen=True)
class Item:
    """Work on a range of hashes: its unworked rows, and all that is due between `after` and the marks of the epoch."""

    range: HashRange
    after: Marks


@dataclass(frozen=True)
class Stretch:
    """A range whose marks lag alike and that has work to do; `due`: also beyond its unworked rows. It `waits` where
    some of its rows have yet to be fetched."""

    range: HashRange
    after: Marks
    due: bool
    waits: bool = False


def stretches(
    marks: Iterable[RangeMark],
    upto: Marks,
    view: StateView,
    operator: Operator,
    away: Sequence[HashRange] = (),
    urgent: Sequence[HashRange] = (),
    turn: int = 0,
) -> list[Stretch]:
    """What is due at a site: urgent ranges, in their order, then those parts that hold back its marks, and of those
    that hold them back alike the ones from the hash `turn` on. `away` are the ranges, in order, of which some rows have
    yet to be fetched."""
    least, rank = view.least_times(), {part.low: n for n, part in enumerate(urgent)}
    found: list[Stretch] = []
    for m in marks:
        due = behind(m.marks, upto) and operator.due(m.marks, upto, least)
        parts = apart(apart([m.range], urgent), [HashRange(turn, HASH_END)] if turn else [])
        found += [Stretch(part, m.marks, due) for part in (remaining(parts, away) if away else parts)]
        found += [Stretch(part, m.marks, due, waits=True) for part in common(parts, away)]
    work = (s for s in found if s.due or view.has_unworked(s.range))
    return sorted(work, key=lambda s: (rank.get(s.range.low, len(rank)), s.after, s.range.low < turn, s.range))


def items(work: Iterable[Stretch], view: StateView, rows: int) -> Iterator[Item]:
    """The work in items of about so many rows. They are made one by one: with a backlog most are not reached."""
    ready = (stretch for stretch in work if not stretch.waits)
    return (Item(part, stretch.after) for stretch in ready for part in view.cuts(stretch.range, rows))


def nothing_due(marks: Iterable[RangeMark], work: Iterable[Stretch], upto: Marks) -> list[HashRange]:
    """The ranges that lag behind `upto` but have no work: their marks move on by themselves."""
    return remaining([m.range for m in marks if behind(m.marks, upto)], [stretch.range for stretch in work])


class Deadline:
    """Says whether one more item may be begun. The first always may."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._stop = None if limits.seconds is None else time.monotonic() + limits.seconds
        self.done = 0

    def allows(self) -> bool:
        if self.done == 0:
            return True
        in_time = self._stop is None or time.monotonic() < self._stop
        return in_time and (self._limits.items is None or self.done < self._limits.items)

    def patience(self, nothing_else: bool, overfull: bool = False) -> float | None:
        """How many seconds a site may wait for rows to be fetched; None: until they are here. With a deadline it does
        not wait at all, unless there was nothing else to do: they come in the background. A site whose buffer is
        `overfull` waits."""
        if not self.allows() and not overfull:
            return 0.0
        if self._stop is None or overfull:
            return None
        return max(0.0, self._stop - time.monotonic()) if nothing_else else 0.0
