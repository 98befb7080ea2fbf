"""Ordering rows so that the rows of one key are contiguous.

Sorting by hash and pane does that unless different keys share a hash: an equal hash is only a candidate. So the keys of
neighbours are compared, and if they differ the rows are sorted again, by key as well. Keys are given as words that are
equal exactly if the keys are. Few keys with many rows each need no sort (`tallied`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from penstock.kernels.arrays import Flags, Indices, Words
from penstock.kernels.segments import PaneRanks, Segments, Values, blocks, tallied

_SAMPLE = 1 << 15  # rows from which the share of rows out of order is estimated
_SPARE_BITS = 4  # a prefix this much longer than a row number makes it rare that different hashes share one
_MOST_PUT_RIGHT = 0.02  # above this share of rows out of order, sorting them again is not cheap


@dataclass(frozen=True)
class SortedRows:
    """Rows sorted by hash and pane: `order` (None: unchanged), and the hashes and panes in that order."""

    order: Indices | None
    hashes: Words
    panes: Indices


@dataclass(frozen=True)
class GroupedRows(Segments):
    """Rows of equal key and pane as ranges. Invariant: every range has one hash and one pane. `ordered` holds all rows
    in the same order."""

    ordered: SortedRows

    @cached_property
    def hashes(self) -> Words:
        """Return the hash of each range."""
        return self.ordered.hashes[self.lo]

    @cached_property
    def panes(self) -> Indices:
        """Return the pane of each range."""
        return self.ordered.panes[self.lo]


def group_by_pane(hashes: Words, panes: Indices, width: int, keys: Sequence[Words]) -> GroupedRows:
    """Return the rows of each key and pane as ranges, ordered by hash and pane. `panes` are the starts of panes of
    length `width`."""
    ordered = _ordered(hashes, panes, width)
    heads = _heads(ordered.hashes)
    _add_heads(heads, [ordered.panes], None)
    if _differ_inside(heads, keys, ordered.order):
        order = np.lexsort((*keys, panes, hashes))
        ordered = SortedRows(order, hashes[order], panes[order])
        heads = _heads(ordered.hashes)
        _add_heads(heads, [panes, *keys], order)
    lo = np.flatnonzero(heads)
    return GroupedRows(ordered.order, lo, np.append(lo[1:], len(hashes))[: len(lo)], ordered)


def group_by_key(hashes: Words, panes: Indices, keys: Sequence[Words]) -> tuple[Indices | None, Flags]:
    """Return an order (None: unchanged) in which the rows of each key are contiguous and sorted by pane, and flags of
    the rows that begin a key in it. The input must be sorted by hash and pane."""
    heads = _heads(hashes)
    if not _differ_inside(heads, keys, None):
        return None, heads
    order = np.lexsort((panes, *keys, hashes))
    heads = _heads(hashes[order])
    _add_heads(heads, keys, order)
    return order, heads


def _heads(values: Values) -> Flags:
    """Return flags of the values that differ from their predecessor. The first value counts as different."""
    heads = np.ones(len(values), dtype=np.bool_)
    np.not_equal(values[1:], values[:-1], out=heads[1:])
    return heads


def _add_heads(heads: Flags, columns: Sequence[Values], order: Indices | None) -> None:
    """Set the flag of each row in which some column, taken in `order`, differs from the previous row. Works in blocks
    so that no column is copied as a whole."""
    for column in columns:
        for block in blocks(len(heads)):
            rows = slice(max(block.start - 1, 0), block.stop)
            values = column[rows] if order is None else column[order[rows]]
            heads[rows.start + 1 : rows.stop] |= values[1:] != values[:-1]
    heads[:1] = True


def _differ_inside(heads: Flags, keys: Sequence[Words], order: Indices | None) -> bool:
    """Return whether a key changes at a row that does not begin a group."""
    changes = np.zeros(len(heads), dtype=np.bool_)
    _add_heads(changes, keys, order)
    return bool(np.any(changes > heads))


def order_by_hash_and_time(hashes: Words, panes: Indices, width: int = 1) -> tuple[Indices | None, Words]:
    """Return the order by hash and pane (None: unchanged), and the hashes in that order. The panes must differ by
    multiples of `width`."""
    ordered = _ordered(hashes, panes, width)
    return ordered.order, ordered.hashes


def _ordered(hashes: Words, panes: Indices, width: int) -> SortedRows:
    """Sort by hash and pane. A prefix of the hash, the pane and the row number are packed into one word and sorted;
    rows whose prefixes are equal but whose hashes differ are sorted again."""
    if _in_order(hashes, panes):
        return SortedRows(None, hashes, panes)
    packing = _Packing(PaneRanks.of(panes, width), len(hashes).bit_length())
    if packing.hash_bits < packing.row_bits + _SPARE_BITS:
        return _ordered_by_far_times(hashes, panes, packing)
    order, in_order, in_order_panes = packing.ordered(hashes, panes)
    if _never_falls(in_order):  # then the rows of each hash are contiguous and sorted by pane
        return SortedRows(order, in_order, in_order_panes)
    return _put_right(order, hashes, panes, 64 - packing.hash_bits)


def _ordered_by_far_times(hashes: Words, panes: Indices, packing: _Packing) -> SortedRows:
    """Sort by hash and pane when the panes take too many bits to be packed with row numbers. Rows usually arrive nearly
    in order of time, so first try to sort by hash and repair the few rows that are out of order."""
    order = _order_by_hash_prefix(hashes, packing.row_bits)
    if _share_out_of_order(hashes[order], panes[order]) <= _MOST_PUT_RIGHT:
        return _put_right(order, hashes, panes, packing.row_bits)
    order = _order_by_prefix_and_rank(hashes, panes, packing.ranking)
    return _put_right(order, hashes, panes, packing.ranking.bits)


def _share_out_of_order(hashes: Words, panes: Indices) -> float:
    """Return the share of rows, in a sample from the start, that have the hash of the previous row and an earlier
    pane."""
    sample = slice(0, _SAMPLE)
    steps = hashes[sample][1:] == hashes[sample][:-1]
    return float(np.mean(steps & (panes[sample][1:] < panes[sample][:-1]))) if len(steps) else 0.0


def _put_right(order: Indices, hashes: Words, panes: Indices, low_bits: int) -> SortedRows:
    """Repair `order`, which sorts by hash without its `low_bits` lowest bits, so that it sorts by hash and pane. Only
    rows that share a prefix with a row out of order are sorted again."""
    ordered, times = hashes[order], panes[order]
    steps = ordered[1:] ^ ordered[:-1]
    falls = (ordered[1:] < ordered[:-1]) | ((steps == 0) & (times[1:] < times[:-1]))
    if not falls.any():
        return SortedRows(order, ordered, times)
    prefixes = np.cumsum(np.concatenate(([0], steps >> np.uint64(low_bits) != 0)))
    wrong = np.zeros(int(prefixes[-1]) + 1, dtype=np.bool_)
    wrong[prefixes[1:][falls]] = True
    places = np.flatnonzero(wrong[prefixes])
    order[places] = order[places][np.lexsort((times[places], ordered[places]))]
    return SortedRows(order, hashes[order], panes[order])


def _never_falls(values: Words) -> bool:
    """Return whether the values are in ascending order."""
    return bool(np.all(values[1:] >= values[:-1]))


def _in_order(hashes: Words, panes: Indices) -> bool:
    """Return whether the rows are sorted by hash, then by pane."""
    return _never_falls(hashes) and bool(np.all((panes[1:] >= panes[:-1]) | (hashes[1:] > hashes[:-1])))


@dataclass(frozen=True)
class _Packing:
    """The layout of a packed sort key: from the highest bits, a prefix of the hash, the rank of the pane, the row
    number. Sorting such words is several times faster than an argsort by key."""

    ranking: PaneRanks
    row_bits: int

    @property
    def hash_bits(self) -> int:
        """Return the number of bits left for the hash; zero or less if there is no room."""
        return 64 - self.ranking.bits - self.row_bits

    def ordered(self, hashes: Words, panes: Indices) -> tuple[Indices, Words, Indices]:
        """Sort the packed keys; return the order, and the hashes and panes in that order."""
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
        """Write the sort keys of a block of rows to `packed`. `first` is the number of the block's first row."""
        self.ranking.ranks(panes, out=packed)
        packed <<= self.row_bits
        packed |= np.arange(first, first + len(packed))
        packed |= _prefixes(hashes, 64 - self.hash_bits).view(np.int64)

    def _unpack(self, packed: Indices, panes: Indices) -> None:
        """Replace the sort keys in `packed` by the row numbers, and write the panes to `panes`."""
        np.right_shift(packed, self.row_bits, out=panes)
        panes &= (1 << self.ranking.bits) - 1
        self.ranking.panes(panes)
        packed &= (1 << self.row_bits) - 1


def _order_by_hash_prefix(hashes: Words, row_bits: int) -> Indices:
    """Return the order by the part of the hash that fits in one word with a row number."""
    packed = _prefixes(hashes, row_bits)
    packed |= np.arange(len(hashes), dtype=np.uint64)
    packed.sort()
    packed &= np.uint64((1 << row_bits) - 1)
    return packed.view(np.int64)


def _order_by_prefix_and_rank(hashes: Words, panes: Indices, ranking: PaneRanks) -> Indices:
    """Return the order by the rank of the pane below the part of the hash that fits in one word with it."""
    ranks = np.empty_like(panes)
    ranking.ranks(panes, out=ranks)
    return np.argsort(_prefixes(hashes, ranking.bits) | ranks.view(np.uint64))


def _prefixes(hashes: Words, low_bits: int) -> Words:
    """Return the hashes with their `low_bits` lowest bits cleared."""
    return hashes & ~np.uint64((1 << low_bits) - 1) if low_bits < 64 else np.zeros_like(hashes)


def group(hashes: Words, panes: Indices, width: int, keys: Sequence[Words]) -> Segments:
    """Return the rows of each key and pane as ranges in order of hash and pane, like `group_by_pane`."""
    return tallied(hashes, panes, width, keys) or group_by_pane(hashes, panes, width, keys)
