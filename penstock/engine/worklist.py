"""The work list of a site: what is due, in which order, in items of bounded size; and how much of it fits an epoch."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from penstock.checkpoint.manifest import RangeMark
from penstock.engine.job import Limits
from penstock.engine.view import StateView
from penstock.operators.window import Window
from penstock.progress.mark import Mark
from penstock.state.directory import HashRange


@dataclass(frozen=True)
class CloseItem:
    """Close the windows of a range of hashes whose end lies in (after, upto]."""

    range: HashRange
    after: Mark
    upto: Mark


def close_items(marks: Iterable[RangeMark], upto: Mark, view: StateView, window: Window, rows: int) -> list[CloseItem]:
    """What is due at a site, those parts first that hold back its low-water mark."""
    behind = sorted((m for m in marks if m.mark < upto), key=lambda m: (m.mark, m.range))
    least_time = view.least_time()
    return [
        CloseItem(part, m.mark, upto)
        for m in behind
        if _something_due(m.mark, upto, least_time, window)
        for part in view.cuts(m.range, rows)
    ]


def nothing_due(marks: Iterable[RangeMark], items: Iterable[CloseItem], upto: Mark) -> list[HashRange]:
    """The ranges that lag behind `upto` but have nothing to close: their marks move on without work."""
    busy = [item.range for item in items]
    return [m.range for m in marks if m.mark < upto and not any(m.range.intersect(part) for part in busy)]


def _something_due(after: Mark, upto: Mark, least_time: int | None, window: Window) -> bool:
    if least_time is None:
        return False
    first_end = window.first_start_ending_after(max(after.at, least_time)) + window.size
    return upto.passed(first_end)


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

    def take(self, items: Iterable[CloseItem]) -> Iterator[CloseItem]:
        for item in items:
            if not self.allows():
                return
            yield item
            self.done += 1
