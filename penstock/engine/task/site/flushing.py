"""Which closings of a site's work list are done in this epoch, and which are put off."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from penstock.balance.flushing import IDLE_SHARE, LAZY, LEAST_SHARE, Closing, at_least, pressing
from penstock.checkpoint.manifest import RangeMark
from penstock.engine.task.site.view import StateView
from penstock.engine.task.site.worklist import Item, Stretch, items
from penstock.engine.wire.job import Limits
from penstock.operators.protocol import ClosesWindows, Marks, Operator
from penstock.state.hash_ranges import common, remaining

IDLE_ITEM_ROWS = 32_768  # items for idle time are small: a look at the clock follows each


@dataclass(frozen=True)
class Flush:
    """The work list in two: what is done `now`, and what is put off to `later`. Both are in the order of the list."""

    now: list[Stretch]
    later: list[Stretch] = field(default_factory=list)


def flush(
    work: list[Stretch], marks: Sequence[RangeMark], upto: Marks, view: StateView, operator: Operator, limits: Limits
) -> Flush:
    """Put off what may wait. At the end of the input nothing may."""
    if not (limits.flushing.puts_off and work and isinstance(operator, ClosesWindows)) or upto[0].ended:
        return Flush(work)
    home, (least,) = sorted(m.range for m in marks), view.least_times()
    assert least is not None, "what is due is due of some rows"
    closings = [Closing(stretch.range, operator.first_end(stretch.after[0], least)) for stretch in work]
    parts = pressing(limits.flushing, closings, upto[0].at, operator.period)
    share = LEAST_SHARE if view.has_fresh else IDLE_SHARE
    now = sorted(at_least(parts, [stretch.range for stretch in work], home, share))
    return Flush(
        [replace(one, range=part) for one in work for part in common([one.range], now)],
        [replace(one, range=part) for one in work for part in remaining([one.range], now)],
    )


def in_idle_time(later: Iterable[Stretch], view: StateView, limits: Limits) -> Iterator[Item]:
    """What could wait, in small items, while a lazy site has nothing else to do."""
    if limits.flushing.mode != LAZY:
        return
    stop = time.monotonic() + limits.idle_seconds
    for item in items(later, view, min(IDLE_ITEM_ROWS, limits.item_rows)):
        if time.monotonic() >= stop:
            return
        yield item
