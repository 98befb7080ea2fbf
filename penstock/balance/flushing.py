"""Flushing: when to close the windows of an aggregate once they are complete. Pure.

A window completes for all keys at once. Closed eagerly, all of them are the work of one epoch: a burst that delays
rows. Nothing downstream needs an order, so closing may be put off, by at most `max_delay` windows:

    slow   a sweep passes over all hashes once in `max_delay` windows of event time, and complete windows are closed
           when the sweep reaches their hashes
    lazy   complete windows are closed in idle time; those left after `max_delay` - 1 windows are closed by a sweep
           that passes over all hashes within the last one

The position of the sweep follows from event time alone, so a restart needs no stored state. The sweep does not go from
the first hash to the last, but visits blocks of hashes in an order that spreads over the hash space evenly, and so over
the sites. A site with few rows has fewer blocks, so a group that moves may have its turn earlier or later, but nothing
is skipped: what the sweep has passed since the window ended is closed, and at the end of the sweep everything is. If
event time stands still, each epoch closes a small share anyway.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from penstock.state.hash_ranges import EVERYTHING, HASH_END, HashRange, common, first_hashes, remaining, width_of

EAGER, SLOW, LAZY = "eager", "slow", "lazy"
LEAST_SHARE = 64  # an epoch closes at least one in so many of a site's hashes, if that many are due
BLOCK_BITS = 7  # the sweep visits 2**7 blocks of hashes: more blocks are evener for each site, but make more items
FEW_ROWS, FEW_BLOCK_BITS = 128, 2  # a smaller state has 2**2 blocks: an item costs more than the few rows in it
IDLE_SHARE = 8  # the same as LEAST_SHARE, for an epoch without rows for the site


@dataclass(frozen=True)
class Flushing:
    """The setting of when windows are closed. Invariant: `mode` is EAGER, SLOW or LAZY, and `max_delay` >= 1 (in
    windows)."""

    mode: str = EAGER
    max_delay: int = 1

    @property
    def puts_off(self) -> bool:
        """Return whether complete windows may be closed later."""
        return self.mode != EAGER

    def rounds(self, period: int) -> tuple[int, int]:
        """Return, for windows that end every `period`, the event time before the sweep starts and the event time that
        the sweep takes."""
        waits = self.max_delay - 1 if self.mode == LAZY else 0
        return waits * period, (self.max_delay - waits) * period


EAGERLY = Flushing()


@dataclass(frozen=True)
class Closing:
    """A range of hashes with complete windows that are still open; the first of them ended at `ended`."""

    range: HashRange
    ended: int


def pressing(
    flushing: Flushing, closings: Iterable[Closing], upto: int, period: int, rows: int | None = None
) -> list[HashRange]:
    """Return the hash ranges that must be closed now, at the low-water mark `upto`, in blocks that suit a state of
    `rows` rows; None stands for a large state."""
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
    """Return `now` plus as much of `due`, from its start, as makes one in `share` of the hashes of `home`."""
    missing = max(1, width_of(home) // share) - width_of(now)
    return [*now, *first_hashes((left for part in due for left in remaining([part], now)), missing)]


@dataclass(frozen=True)
class IdleBudget:
    """The idle time of sites. `length` is the target length of an epoch in seconds, `work` the seconds of the last
    epoch that could not be put off."""

    length: float
    work: float = float("inf")

    def after(self, seconds: float, flushed: float) -> IdleBudget:
        """Return the budget after an epoch of `seconds`, `flushed` of them spent on closing that could have been put
        off."""
        return replace(self, work=max(0.0, seconds - flushed))

    def seconds(self, waiting: int) -> float:
        """Return the idle seconds of the next epoch: none while `waiting` rows are to be read."""
        return 0.0 if waiting else max(0.0, self.length - self.work)


def _block_bits(rows: int) -> int:
    """Return the bits of a block number for a site with so many rows. There are two sizes only: whenever the size
    changes, the sweep visits blocks in another order, and some are closed early."""
    return BLOCK_BITS if rows >= FEW_ROWS else FEW_BLOCK_BITS


def _passed(since: int, upto: int, cycle: int, bits: int) -> list[HashRange]:
    """Return the hash ranges that the sweep passed over in the event time from `since` to `upto`, sorted."""
    if upto - since >= cycle:
        return [EVERYTHING]
    if upto <= since:
        return []
    begin, end = (time % cycle * HASH_END // cycle for time in (since, upto))
    if begin <= end:
        return sorted(_blocks(begin, end, bits))
    return sorted([*_blocks(0, end, bits), *_blocks(begin, HASH_END, bits)])


def _blocks(begin: int, end: int, bits: int) -> Iterator[HashRange]:
    """Yield the hash ranges between two positions of the sweep, block by block, the first and the last cut. Blocks come
    in the order of their bit-reversed numbers: with 7 bits 0, 64, 32, 96, 16 ..."""
    width = HASH_END >> bits
    for turn in range(begin // width, -(-end // width)):
        block = int(f"{turn:0{bits}b}"[::-1], 2)
        low, high = max(begin, turn * width), min(end, (turn + 1) * width)
        yield HashRange(low + (block - turn) * width, high + (block - turn) * width)
