"""Flushing: when the windows of an aggregate are closed, once they are complete. Pure.

A window completes for all keys at once. Closed eagerly, all of it is work of one epoch: a burst that rows wait behind.
Nothing downstream needs it in order, so it may be put off, by at most `max_delay` windows:

    slow   a hand goes round all hashes once in `max_delay` windows of event time, and what is complete is closed where
           it passes
    lazy   what is complete is closed in idle time; what is left when `max_delay` - 1 windows have gone by is closed as
           the hand passes, which goes round once in the last one

Where the hand is follows from event time alone, so nothing has to be remembered over a restart; and when it comes to a
hash does not depend on where that lives, so a group that moves keeps its place and nothing is skipped or hurried. The
hand does not go from the first hash to the last, but takes blocks of them in an order in which any part of the hashes,
and so any site, has its turn about evenly. Should event time stand still, a little is done in every epoch all the same.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from penstock.state.hash_ranges import EVERYTHING, HASH_END, HashRange, common, remaining

EAGER, SLOW, LAZY = "eager", "slow", "lazy"
LEAST_SHARE = 64  # one in so many of a site's hashes is closed in an epoch, if that many wait
BLOCK_BITS = 7  # the hand takes the hashes in 2**7 blocks: the more, the evener for each site, and the more items
LEAST_BLOCK_BITS = 2  # fewer blocks where there are few rows, whose items would cost more than the rows in them
BLOCK_ROWS = 64
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
    flushing: Flushing, closings: Iterable[Closing], upto: int, period: int, rows: int | None = None
) -> list[HashRange]:
    """Return the parts of the closings that are not to be put off any longer at the low-water mark `upto`, in blocks
    that suit a state of `rows` rows; None: of very many."""
    waits, cycle = flushing.rounds(period)
    bits = BLOCK_BITS if rows is None else _block_bits(rows)
    alike = defaultdict[int, list[HashRange]](list)
    for one in closings:
        alike[one.ended].append(one.range)
    return [
        part
        for ended, ranges in alike.items()
        for part in common(sorted(ranges), _passed(ended + waits, upto, cycle, bits))
    ]  # fmt: skip


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


def _block_bits(rows: int) -> int:
    return min(BLOCK_BITS, max(LEAST_BLOCK_BITS, (rows // BLOCK_ROWS).bit_length()))


def _passed(since: int, upto: int, cycle: int, bits: int) -> list[HashRange]:
    """Return the hashes that the hand has passed from `since` to `upto`, in order."""
    if upto - since >= cycle:
        return [EVERYTHING]
    if upto <= since:
        return []
    begin, end = (time % cycle * HASH_END // cycle for time in (since, upto))
    if begin <= end:
        return sorted(_blocks(begin, end, bits))
    return sorted([*_blocks(0, end, bits), *_blocks(begin, HASH_END, bits)])


def _blocks(begin: int, end: int, bits: int) -> Iterator[HashRange]:
    """Yield the hashes that the hand passes from one place of its round to another, block by block, the first and the
    last in part. Blocks come in the order of their numbers with the bits reversed: with 7 bits 0, 64, 32, 96, 16 ..."""
    width = HASH_END >> bits
    for turn in range(begin // width, -(-end // width)):
        block = int(f"{turn:0{bits}b}"[::-1], 2)
        low, high = max(begin, turn * width), min(end, (turn + 1) * width)
        yield HashRange(low + (block - turn) * width, high + (block - turn) * width)


def _first(ranges: Iterable[HashRange], width: int) -> Iterator[HashRange]:
    """From the beginning, so many hashes."""
    for part in ranges:
        if width <= 0:
            return
        yield HashRange(part.low, min(part.high, part.low + width))
        width -= part.high - part.low


def _width(ranges: Iterable[HashRange]) -> int:
    return sum(part.high - part.low for part in ranges)
