"""The work list of a site: what is due, in which order, in items of bounded size; and how much of it fits an epoch."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from penstock.checkpoint.manifest import RangeMark
from penstock.engine.job import Limits
from penstock.engine.marks import behind
from penstock.engine.view import StateView
from penstock.operators.base import Marks, Operator
from penstock.state.directory import HashRange, remaining


@dataclass(frozen=True)
class Item:
    """Work on a range of hashes: its unworked rows, and all that is due between `after` and the marks of the epoch.
    `closes`: something may be due there, besides unworked rows."""

    range: HashRange
    after: Marks
    closes: bool = True


def items(marks: Iterable[RangeMark], upto: Marks, view: StateView, operator: Operator) -> list[Item]:
    """What is due at a site, those ranges first that hold back its marks."""
    least = view.least_times()
    in_order = sorted(marks, key=lambda m: (m.marks, m.range))
    found = [Item(m.range, m.marks, behind(m.marks, upto) and operator.due(m.marks, upto, least)) for m in in_order]
    return [item for item in found if item.closes or view.has_unworked(item.range)]


def cut(work: Iterable[Item], view: StateView, rows: int) -> list[Item]:
    """The same work, in the same order, in items of about `rows` rows."""
    parts = [replace(item, range=part) for item in work for part in view.cuts(item.range, rows)]
    return [item for item in parts if item.closes or view.has_unworked(item.range)]


def nothing_due(marks: Iterable[RangeMark], work: Iterable[Item], upto: Marks) -> list[HashRange]:
    """The ranges that lag behind `upto` but have no work: their marks move on by themselves."""
    busy = [item.range for item in work]
    return [part for m in marks if behind(m.marks, upto) for part in remaining([m.range], busy)]


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
