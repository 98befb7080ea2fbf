"""The work list of a site: what is due, in which order, in items of bounded size; and how much of it fits an epoch."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from penstock.checkpoint.manifest import RangeMark
from penstock.engine.job import Limits
from penstock.engine.marks import behind
from penstock.engine.view import StateView
from penstock.operators.base import Marks, Operator
from penstock.state.directory import HashRange


@dataclass(frozen=True)
class Item:
    """Work on a range of hashes: its unworked rows, and all that is due between `after` and the marks of the epoch."""

    range: HashRange
    after: Marks


@dataclass(frozen=True)
class Stretch:
    """A range whose marks lag alike and that has work to do; `due`: also beyond its unworked rows."""

    range: HashRange
    after: Marks
    due: bool


def stretches(marks: Iterable[RangeMark], upto: Marks, view: StateView, operator: Operator) -> list[Stretch]:
    """What is due at a site, those parts first that hold back its marks."""
    least = view.least_times()
    found = [Stretch(m.range, m.marks, behind(m.marks, upto) and operator.due(m.marks, upto, least)) for m in marks]
    return sorted((s for s in found if s.due or view.has_unworked(s.range)), key=lambda s: (s.after, s.range))


def items(work: Iterable[Stretch], view: StateView, rows: int) -> Iterator[Item]:
    """The work in items of about so many rows. They are made one by one: with a backlog most are not reached."""
    return (Item(part, stretch.after) for stretch in work for part in view.cuts(stretch.range, rows))


def nothing_due(marks: Iterable[RangeMark], work: Iterable[Stretch], upto: Marks) -> list[HashRange]:
    """The ranges that lag behind `upto` but have no work: their marks move on by themselves."""
    busy = {stretch.range for stretch in work}
    return [m.range for m in marks if behind(m.marks, upto) and m.range not in busy]


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

    def take(self, items: Iterable[Item]) -> Iterator[Item]:
        for item in items:
            if not self.allows():
                return
            yield item
            self.done += 1
