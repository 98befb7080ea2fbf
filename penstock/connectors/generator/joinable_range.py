"""The ranges of a joinable stream: which values a range has, in which order its rows have them, and whose turn it is.

A range has `tuple_range` places, and each value of a partition with the join ratio r has r of them. The rows of a range
take its places in a random order, another one in each range of each stream, by a permutation that is computed for any
place alone: a Feistel network over the cells of a rectangle that is a little larger than the range. A place that it
sends outside the range is sent on until it is inside.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from penstock.connectors.generator.reader import random_key
from penstock.kernels.arrays import Words
from penstock.kernels.hash import STRIDE, bigints_of, mix

_VALUE = 0  # the place of the random column of values, as part of what a seed means
_ROUNDS = 4
_Whole = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Section:
    """The `partitions` from the `first` on, which have one ratio and one turn: `values` values and `tuples` tuples of
    each range. Invariant: `tuples` = `values` x `ratio`, and `values` >= `partitions`."""

    first: int
    partitions: int
    ratio: int
    tuples: int

    @property
    def values(self) -> int:
        return self.tuples // self.ratio


@dataclass(frozen=True)
class RangeLayout:
    """The values of a range and how often each occurs. Partition p consists of the keys whose hash lies in the p-th of
    `partitions` equal parts of all hashes, so it is a part of what a site owns. With `halves`, the first half of
    the places is that of the first half of the partitions."""

    tuple_range: int
    partitions: int
    ratios: tuple[int, ...]
    halves: bool
    seed: int

    def multiple(self) -> int:
        """Return the number of which `tuple_range` must be a multiple, so that each section has whole values."""
        shares = [(count, self.partitions * ratio) for _, count, ratio in self._cuts()]
        return math.lcm(*(whole // math.gcd(count, whole) for count, whole in shares))

    def sections(self) -> tuple[Section, ...]:
        share = self.tuple_range
        return tuple(Section(at, n, ratio, share * n // self.partitions) for at, n, ratio in self._cuts())

    def _cuts(self) -> Iterator[tuple[int, int, int]]:
        """Yield the first partition, the number of partitions and the ratio of each section."""
        each = self.partitions // len(self.ratios)
        borders = {each * n for n in range(len(self.ratios))} | ({self.partitions // 2} if self.halves else set())
        ordered = [*sorted(borders), self.partitions]
        for first, last in itertools.pairwise(ordered):
            yield first, last - first, self.ratios[first // each]


@dataclass(frozen=True)
class RangePlaces:
    """The key and the partition of each place of a range."""

    keys: _Whole
    partitions: npt.NDArray[np.int32]


@functools.lru_cache(maxsize=4)
def places_of(layout: RangeLayout) -> RangePlaces:
    """Return the places of a range. Equal values have neighbouring places."""
    hashes, before = [], 0
    for section in layout.sections():
        hashes.append(np.repeat(_hashes_of(layout, section, before), section.ratio))
        before += section.values
    all_hashes = np.concatenate(hashes)
    partitions = all_hashes // np.uint64(2**64 // layout.partitions)
    return RangePlaces(bigints_of(all_hashes), partitions.astype(np.int32))


def _hashes_of(layout: RangeLayout, section: Section, before: int) -> Words:
    """Return the hash of each value of a section: a random one in a part of the hashes that only this value has."""
    value = np.arange(section.values, dtype=np.int64)
    partition = value * section.partitions // section.values
    in_partition = value + partition * section.values // -section.partitions
    of_partition = 2**64 // layout.partitions
    width = of_partition // -(-section.values // section.partitions)
    drawn = mix(random_key(layout.seed, _VALUE) + (value + before).astype(np.uint64) * STRIDE) % np.uint64(width)
    low = (partition + section.first).astype(np.uint64) * np.uint64(of_partition)
    return np.asarray(low + in_partition.astype(np.uint64) * np.uint64(width) + drawn, dtype=np.uint64)


@dataclass(frozen=True)
class Permutation:
    """A random order of [0, size) for each range number. `key` chooses the orders."""

    size: int
    key: int

    @property
    def rows(self) -> int:
        return math.isqrt(self.size - 1) + 1

    @property
    def columns(self) -> int:
        return -(-self.size // self.rows)

    def places(self, numbers: _Whole, at: _Whole) -> _Whole:
        """Return the place in [0, size) that each `at` in [0, size) has in the range of the given number."""
        found = self._shuffled(numbers, at)
        while len(outside := np.flatnonzero(found >= self.size)):
            found[outside] = self._shuffled(numbers[outside], found[outside])
        return found

    def _shuffled(self, numbers: _Whole, at: _Whole) -> _Whole:
        """Permute the cells of the rectangle: shift each row of cells by a random number, then each column, and again,
        so that in the end each cell can be anywhere."""
        row, column = np.divmod(at.astype(np.uint64), np.uint64(self.columns))
        base = numbers.astype(np.uint64) * np.uint64(self.rows)
        for turn in range(0, _ROUNDS, 2):
            column = self._shifted(column, self.columns, turn, base + row)
            row = self._shifted(row, self.rows, turn + 1, base + column)
        return (row * np.uint64(self.columns) + column).astype(np.int64)

    def _shifted(self, cells: Words, size: int, turn: int, words: Words) -> Words:
        drawn = mix(random_key(self.key, turn) + words * STRIDE) >> np.uint64(32)
        moved = cells + (drawn * np.uint64(size) >> np.uint64(32))
        return np.where(moved >= size, moved - np.uint64(size), moved)


@dataclass(frozen=True)
class Turns:
    """The turns of two halves. `lengths`, in rows, are repeated for ever, and the halves take turns, the first half
    first; during its turn a half gets all but one of `skew` + 1 rows. Invariant: an even number of lengths, all above
    0."""

    skew: float
    lengths: tuple[int, ...]

    def of(self, rows: _Whole) -> tuple[_Whole, _Whole]:
        """Return the half of each row, and how many rows of that half come before it."""
        starts = np.cumsum((0, *self.lengths))
        cycle, at = np.divmod(rows, starts[-1])
        turn = np.searchsorted(starts, at, side="right") - 1
        at -= starts[turn]
        others = self._others(at)
        other = self._others(at + 1) > others
        half = np.where(other, 1 - turn % 2, turn % 2)
        before = self._before()
        return half, np.where(other, others, at - others) + before[turn, half] + cycle * before[-1, half]

    def _others(self, rows: _Whole) -> _Whole:
        """Return how many of the first `rows` rows of a turn the half gets whose turn it is not."""
        return np.floor(rows / (self.skew + 1)).astype(np.int64)

    def _before(self) -> _Whole:
        """Return, for each turn and after the last one, how many rows each half got in the turns before."""
        lengths = np.array(self.lengths, dtype=np.int64)
        others, ours = self._others(lengths), lengths - self._others(lengths)
        second = np.arange(len(lengths)) % 2 == 1
        got = np.stack([np.where(second, others, ours), np.where(second, ours, others)], axis=1)
        return np.concatenate([np.zeros((1, 2), np.int64), np.cumsum(got, axis=0)])
