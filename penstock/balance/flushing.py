"""Flushing: when the windows of an aggregate are closed, once they are complete. Pure.

A window completes for all keys at once. Closed eagerly, all of it is work of one epoch: a burst that rows wait behind.
Nothing downstream needs it in order, so it may be put off, by at most `max_delay` windows:

    slow   a hand goes round the hashes of a site once in `max_delay` windows of event time, and what is complete is
           closed where it passes
    lazy   what is complete is closed in idle time; what is left when `max_delay` - 1 windows have gone by is closed as
           the hand passes, which goes round once in the last one

Where the hand is follows from event time alone, so nothing has to be remembered: not over a restart, nor where groups
move. Should event time stand still, a little is done in every epoch all the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from penstock.state.ranges import HashRange, common, remaining

EAGER, SLOW, LAZY = "eager", "slow", "lazy"
LEAST_SHARE = 64  # one in so many of a site's hashes is closed in an epoch, if that many wait
IDLE_SHARE = 8  # the same in an epoch that brings the site no rows


@dataclass(frozen=True)
class Flushing:
    """How closings are put off. Invariant: `mode` is one of the three, and max_delay >= 1."""

    mode: str = EAGER
    max_delay: int = 1

    @property
    def puts_off(self) -> bool:
        return self.mode != EAGER

    def rounds(self, period: int) -> tuple[int, int]:
        """For windows that end every `period`: how long the hand does not matter, and how long it goes round."""
        waits = self.max_delay - 1 if self.mode == LAZY else 0
        return waits * period, (self.max_delay - waits) * period


EAGERLY = Flushing()


@dataclass(frozen=True)
class Closing:
    """A range of hashes with complete windows that are not closed; the first of them ended at `ended`."""

    range: HashRange
    ended: int


def pressing(
    flushing: Flushing, home: Sequence[HashRange], closings: Iterable[Closing], upto: int, period: int
) -> list[HashRange]:
    """The parts of the closings that are not to be put off any longer at the low-water mark `upto`. `home` are all
    hashes of the site, in order."""
    waits, cycle = flushing.rounds(period)
    return [part for one in closings for part in common([one.range], _passed(home, one.ended + waits, upto, cycle))]


def at_least(
    now: Sequence[HashRange], due: Sequence[HashRange], home: Sequence[HashRange], share: int
) -> list[HashRange]:
    """What is pressing, and as much of what else is due, from its beginning, as makes one in `share` of all hashes."""
    missing = max(1, _width(home) // share) - _width(now)
    return [*now, *_first((left for part in due for left in remaining([part], now)), missing)]


@dataclass(frozen=True)
class Leisure:
    """The time that sites have to spare: epochs are to be `length` seconds long, and what cannot be put off took
    `work` seconds of the last one."""

    length: float
    work: float = float("inf")

    def after(self, seconds: float, flushed: float) -> Leisure:
        """After an epoch of so many seconds, `flushed` of them spent on what could have been put off."""
        return replace(self, work=max(0.0, seconds - flushed))

    def seconds(self, waiting: int) -> float:
        """The idle time of an epoch behind which so many rows wait."""
        return 0.0 if waiting else max(0.0, self.length - self.work)


def _passed(home: Sequence[HashRange], since: int, upto: int, cycle: int) -> list[HashRange]:
    """The hashes that the hand has passed from `since` to `upto`."""
    if upto - since >= cycle:
        return list(home)
    total = _width(home)
    begin, end = (time % cycle * total // cycle for time in (since, upto))
    if upto <= since:
        return []
    return _between(home, begin, end) if begin <= end else [*_between(home, 0, end), *_between(home, begin, total)]


def _between(home: Sequence[HashRange], begin: int, end: int) -> list[HashRange]:
    """The hashes of `home` from one place to before another, counted over all of it."""
    found, before = [], 0
    for part in home:
        low, high = max(part.low, part.low + begin - before), min(part.high, part.low + end - before)
        found += [HashRange(low, high)] if low < high else []
        before += part.high - part.low
    return found


def _first(ranges: Iterable[HashRange], width: int) -> Iterator[HashRange]:
    """From the beginning, so many hashes."""
    for part in ranges:
        if width <= 0:
            return
        yield HashRange(part.low, min(part.high, part.low + width))
        width -= part.high - part.low


def _width(ranges: Iterable[HashRange]) -> int:
    return sum(part.high - part.low for part in ranges)
