"""Bringing rows of one key together.

An order by hash and pane does it, except for different keys with one hash: an equal hash is only a candidate, so the
keys of neighbours are compared, and where they differ the rows are ordered once more, also by key. Keys are given as
words that are equal exactly where the keys are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from penstock.kernels.arrays import Flags, Indices, Words
from penstock.kernels.in_cache import blocks
from penstock.kernels.pane_ranks import Ranking
from penstock.kernels.segments import Segments, Values

_SAMPLE = 1 << 15  # rows that tell how many of all come out of order
_SPARE_BITS = 4  # so many bits above those of a row number keep different hashes with one prefix rare
_MOST_PUT_RIGHT = 0.02  # the share of rows out of order above which sorting them once more is not cheap


@dataclass(frozen=True)
class Ordered:
    """Rows by hash and pane: `order` (None: as they stand), and the hashes and panes in it."""

    order: Indices | None
    hashes: Words
    panes: Indices


@dataclass(frozen=True)
class Grouped(Segments):
    """Invariant: every range has one hash and one pane. `ordered` are the rows of all ranges, in the same order."""

    ordered: Ordered

    @cached_property
    def hashes(self) -> Words:
        """The hash of each range."""
        return self.ordered.hashes[self.lo]

    @cached_property
    def panes(self) -> Indices:
        """The pane of each range."""
        return self.ordered.panes[self.lo]


def group_by_pane(hashes: Words, panes: Indices, width: int, keys: Sequence[Words]) -> Grouped:
    """The rows of each key and pane, ordered by hash and pane. `panes` are starts of panes that are `width` wide."""
    ordered = _ordered(hashes, panes, width)
    heads = _heads(ordered.hashes)
    _add_heads(heads, [ordered.panes], None)
    if _differ_inside(heads, keys, ordered.order):
        order = np.lexsort((*keys, panes, hashes))
        ordered = Ordered(order, hashes[order], panes[order])
        heads = _heads(ordered.hashes)
        _add_heads(heads, [panes, *keys], order)
    lo = np.flatnonzero(heads)
    return Grouped(ordered.order, lo, np.append(lo[1:], len(hashes))[: len(lo)], ordered)


def group_by_key(hashes: Words, panes: Indices, keys: Sequence[Words]) -> tuple[Indices | None, Flags]:
    """An order (None: as it stands) in which each key has its rows together, by pane, and which rows begin a key there.
    The rows are given in order of hash and pane."""
    heads = _heads(hashes)
    if not _differ_inside(heads, keys, None):
        return None, heads
    order = np.lexsort((panes, *keys, hashes))
    heads = _heads(hashes[order])
    _add_heads(heads, keys, order)
    return order, heads


def _heads(values: Values) -> Flags:
    """Which values differ from the one before them; the first one does."""
    heads = np.ones(len(values), dtype=np.bool_)
    np.not_equal(values[1:], values[:-1], out=heads[1:])
    return heads


def _add_heads(heads: Flags, columns: Sequence[Values], order: Indices | None) -> None:
    """Adds the rows where one of the columns, taken in `order`, differs from the row before; block by block, so that
    no column is copied as a whole."""
    for column in columns:
        for block in blocks(len(heads)):
            rows = slice(max(block.start - 1, 0), block.stop)
            values = column[rows] if order is None else column[order[rows]]
            heads[rows.start + 1 : rows.stop] |= values[1:] != values[:-1]
    heads[:1] = True


def _differ_inside(heads: Flags, keys: Sequence[Words], order: Indices | None) -> bool:
    """Whether some key changes where no group begins."""
    changes = np.zeros(len(heads), dtype=np.bool_)
    _add_heads(changes, keys, order)
    return bool(np.any(changes > heads))


def order_by_hash_and_time(hashes: Words, panes: Indices, width: int = 1) -> tuple[Indices | None, Words]:
    """The order (None: as it stands), and the hashes in it. `panes` are multiples of `width` apart."""
    ordered = _ordered(hashes, panes, width)
    return ordered.order, ordered.hashes


def _ordered(hashes: Words, panes: Indices, width: int) -> Ordered:
    """Sorts by a prefix of the hash and the pane in one number, and puts right what the prefix leaves undecided."""
    if _in_order(hashes, panes):
        return Ordered(None, hashes, panes)
    packing = _Packing(Ranking.of(panes, width), len(hashes).bit_length())
    if packing.hash_bits < packing.row_bits + _SPARE_BITS:
        return _ordered_by_far_times(hashes, panes, packing)
    order, in_order, in_order_panes = packing.ordered(hashes, panes)
    if _never_falls(in_order):  # rows of one hash stand together then, and by pane
        return Ordered(order, in_order, in_order_panes)
    return _put_right(order, hashes, panes, 64 - packing.hash_bits)


def _ordered_by_far_times(hashes: Words, panes: Indices, packing: _Packing) -> Ordered:
    """The times take too many bits to be packed with row numbers. Mostly rows come in order of time anyway."""
    order = _order_by_hash_prefix(hashes, packing.row_bits)
    if _share_out_of_order(hashes[order], panes[order]) <= _MOST_PUT_RIGHT:
        return _put_right(order, hashes, panes, packing.row_bits)
    order = _order_by_prefix_and_rank(hashes, panes, packing.ranking)
    return _put_right(order, hashes, panes, packing.ranking.bits)


def _share_out_of_order(hashes: Words, panes: Indices) -> float:
    sample = slice(0, _SAMPLE)
    steps = hashes[sample][1:] == hashes[sample][:-1]
    return float(np.mean(steps & (panes[sample][1:] < panes[sample][:-1]))) if len(steps) else 0.0


def _put_right(order: Indices, hashes: Words, panes: Indices, low_bits: int) -> Ordered:
    """An order by hash without its lowest bits, made one by hash and time. Only rows that share a prefix with some that
    are not in order are sorted again."""
    ordered, times = hashes[order], panes[order]
    steps = ordered[1:] ^ ordered[:-1]
    falls = (ordered[1:] < ordered[:-1]) | ((steps == 0) & (times[1:] < times[:-1]))
    if not falls.any():
        return Ordered(order, ordered, times)
    prefixes = np.cumsum(np.concatenate(([0], steps >> np.uint64(low_bits) != 0)))
    wrong = np.zeros(int(prefixes[-1]) + 1, dtype=np.bool_)
    wrong[prefixes[1:][falls]] = True
    places = np.flatnonzero(wrong[prefixes])
    order[places] = order[places][np.lexsort((times[places], ordered[places]))]
    return Ordered(order, hashes[order], panes[order])


def _never_falls(values: Words) -> bool:
    return bool(np.all(values[1:] >= values[:-1]))


def _in_order(hashes: Words, panes: Indices) -> bool:
    return _never_falls(hashes) and bool(np.all((panes[1:] >= panes[:-1]) | (hashes[1:] > hashes[:-1])))


@dataclass(frozen=True)
class _Packing:
    """How the prefix of a hash, the rank of a pane and a row number make one number, highest bits first. Sorting such
    numbers is several times faster than sorting row numbers by a key."""

    ranking: Ranking
    row_bits: int

    @property
    def hash_bits(self) -> int:
        """The room for the hash; none if not above zero."""
        return 64 - self.ranking.bits - self.row_bits

    def ordered(self, hashes: Words, panes: Indices) -> tuple[Indices, Words, Indices]:
        """The order of the numbers, and the hashes and panes in it."""
        packed = np.empty(len(hashes), np.int64)
        for rows in blocks(len(hashes)):
            self._pack(hashes[rows], panes[rows], rows.start, packed[rows])
        packed.view(np.uint64).sort()
        in_order, in_order_panes = np.empty_like(hashes), np.empty_like(packed)
        for rows in blocks(len(hashes)):
            self._unpack(packed[rows], in_order_panes[rows])
            hashes.take(packed[rows], out=in_order[rows], mode="clip")
        return packed, in_order, in_order_panes

    def _pack(self, hashes: Words, panes: Indices, first: int, packed: Indices) -> None:
        self.ranking.ranks(panes, out=packed)
        packed <<= self.row_bits
        packed |= np.arange(first, first + len(packed))
        packed |= _prefixes(hashes, 64 - self.hash_bits).view(np.int64)

    def _unpack(self, packed: Indices, panes: Indices) -> None:
        """Leaves the row numbers in `packed`, and puts the panes into `panes`."""
        np.right_shift(packed, self.row_bits, out=panes)
        panes &= (1 << self.ranking.bits) - 1
        self.ranking.panes(panes)
        packed &= (1 << self.row_bits) - 1


def _order_by_hash_prefix(hashes: Words, row_bits: int) -> Indices:
    """An order by as much of the hash as goes with a row number into one."""
    packed = _prefixes(hashes, row_bits)
    packed |= np.arange(len(hashes), dtype=np.uint64)
    packed.sort()
    packed &= np.uint64((1 << row_bits) - 1)
    return packed.view(np.int64)


def _order_by_prefix_and_rank(hashes: Words, panes: Indices, ranking: Ranking) -> Indices:
    ranks = np.empty_like(panes)
    ranking.ranks(panes, out=ranks)
    return np.argsort(_prefixes(hashes, ranking.bits) | ranks.view(np.uint64))


def _prefixes(hashes: Words, low_bits: int) -> Words:
    """The hashes with their lowest bits cleared."""
    return hashes & ~np.uint64((1 << low_bits) - 1) if low_bits < 64 else np.zeros_like(hashes)
