"""The work list of a site: what is due, in which order, in items of bounded size; and how much of it fits an epoch."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from penstock.checkpoint.manifest import RangeMark
from penstock.engine.job import Limits
from penstock.engine.marks import behind
from penstock.engine.view import StateView
from penstock.operators.base import Marks, Operator
from penstock.state.directory import HashRange, common, remaining


@dataclass(frozen=True)
class Item:
    """Work on a range of hashes: its unworked rows, and all that is due between `after` and the marks of the epoch.
    `waits`: some of its rows have yet to be fetched."""

    range: HashRange
    after: Marks
    waits: bool = False


def items(
    marks: Iterable[RangeMark],
    upto: Marks,
    view: StateView,
    operator: Operator,
    rows: int,
    away: Sequence[HashRange] = (),
) -> list[Item]:
    """What is due at a site, those parts first that hold back its marks. `away` are the ranges, in order, of which
    some rows have yet to be fetched."""
    least = view.least_times()
    found: list[Item] = []
    for m in sorted(marks, key=lambda m: (m.marks, m.range)):
        due = behind(m.marks, upto) and operator.due(m.marks, upto, least)
        for here in remaining([m.range], away):
            if due or view.has_unworked(here):
                found += [Item(part, m.marks) for part in view.cuts(here, rows) if due or view.has_unworked(part)]
        waiting = common([m.range], away)
        found += [Item(part, m.marks, waits=True) for part in waiting if due or view.has_unworked(part)]
    return found


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

    def patience(self, nothing_else: bool) -> float | None:
        """How many seconds a site may wait for rows to be fetched; None: until they are here. With a deadline it does
        not wait at all, unless there was nothing else to do: they come in the background."""
        if not self.allows():
            return 0.0
        if self._stop is None:
            return None
        return max(0.0, self._stop - time.monotonic()) if nothing_else else 0.0

    def take(self, items: Iterable[Item]) -> Iterator[Item]:
        for item in items:
            if not self.allows():
                return
            yield item
            self.done += 1
