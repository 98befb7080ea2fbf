"""Which closings of a site's work list are done in this epoch, and which are put off."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from penstock.balance.flushing import IDLE_SHARE, LAZY, LEAST_SHARE, Closing, at_least, pressing
from penstock.checkpoint.manifest import RangeMark
from penstock.engine.job import Limits
from penstock.engine.view import StateView
from penstock.engine.worklist import Item, cut
from penstock.operators.base import ClosesWindows, Marks, Operator
from penstock.state.directory import common, remaining

IDLE_ITEM_ROWS = 32_768  # items for idle time are small: a look at the clock follows each


@dataclass(frozen=True)
class Flush:
    """The work list in two: what is done `now`, and what is put off to `later`. Both are in the order of the list."""

    now: list[Item]
    later: list[Item] = field(default_factory=list)


def flush(
    work: list[Item], marks: Sequence[RangeMark], upto: Marks, view: StateView, operator: Operator, limits: Limits
) -> Flush:
    """Put off what may wait. At the end of the input nothing may."""
    if not (limits.flushing.puts_off and work and isinstance(operator, ClosesWindows)) or upto[0].ended:
        return Flush(work)
    home, (least,) = sorted(m.range for m in marks), view.least_times()
    assert least is not None, "what is due is due of some rows"
    closings = [Closing(item.range, operator.first_end(item.after[0], least)) for item in work]
    parts = pressing(limits.flushing, home, closings, upto[0].at, operator.period)
    share = LEAST_SHARE if view.has_fresh else IDLE_SHARE
    now = sorted(at_least(parts, [item.range for item in work], home, share))
    return Flush(
        [replace(item, range=part) for item in work for part in common([item.range], now)],
        [replace(item, range=part) for item in work for part in remaining([item.range], now)],
    )


def in_idle_time(later: Iterable[Item], view: StateView, limits: Limits) -> Iterator[Item]:
    """What could wait, in small items, while a lazy site has nothing else to do."""
    if limits.flushing.mode != LAZY:
        return
    stop = time.monotonic() + limits.idle_seconds
    for item in later:
        for part in cut([item], view, min(IDLE_ITEM_ROWS, limits.item_rows)):
            if time.monotonic() >= stop:
                return
            yield part
