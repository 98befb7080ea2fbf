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
import numpy.typing as npt

from penstock.operators.aggregate_segments import Indices, Segments, Values
from penstock.state.hash import Words

Flags = npt.NDArray[np.bool_]

_BLOCK = 1 << 15  # rows compared at a time
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
        for start in range(0, len(heads), _BLOCK):
            rows = slice(max(start - 1, 0), start + _BLOCK)
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
    ranks, bits = ranks_of(panes, width)
    row_bits = len(hashes).bit_length()
    if 64 - bits - row_bits >= row_bits + _SPARE_BITS:
        order, ranks = _order_with_row_numbers(hashes, ranks, bits)
        if _never_falls(in_order := hashes[order]):  # rows of one hash stand together then, and by pane
            return Ordered(order, in_order, _panes_of(ranks, panes, width))
        return _put_right(order, hashes, panes, bits + row_bits)
    # The times take too many bits to be packed with row numbers. Mostly rows come in order of time anyway.
    order, _ = _order_with_row_numbers(hashes, np.zeros(1, np.uint64), 0)
    if _share_out_of_order(hashes[order], panes[order]) > _MOST_PUT_RIGHT:
        order = np.argsort(_prefixes(hashes, bits) | ranks)
        row_bits = bits
    return _put_right(order, hashes, panes, row_bits)


def _share_out_of_order(hashes: Words, panes: Indices) -> float:
    sample = slice(0, _BLOCK)
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


# Fresh memory is dearer than arithmetic on a column, so what follows works in place.


def ranks_of(panes: Indices, width: int) -> tuple[Words, int]:
    """Each pane's number counted from the earliest one, and how many bits that takes. Unsigned, for the panes may lie
    further apart than a signed number can say."""
    ranks = panes.view(np.uint64) - panes.min().view(np.uint64)
    ranks //= np.uint64(width)
    return ranks, int(ranks.max()).bit_length()


def _panes_of(ranks: Words, panes: Indices, width: int) -> Indices:
    """The panes of ranks, in place: the other way round from `ranks_of`."""
    ranks *= np.uint64(width)
    ranks += panes.min().view(np.uint64)
    return ranks.view(np.int64)


def _order_with_row_numbers(hashes: Words, ranks: Words, bits: int) -> tuple[Indices, Words]:
    """Sorts numbers made of hash prefix, pane and row, which is several times faster than sorting row numbers by a
    key. `bits` is how many a rank takes; as many low bits of a hash, and those of a row number, make room. Gives the
    ranks in the order, too."""
    row_bits = len(hashes).bit_length()
    packed = _prefixes(hashes, bits + row_bits)
    packed |= ranks << np.uint64(row_bits)
    packed |= np.arange(len(hashes), dtype=np.uint64)
    packed.sort()
    in_order = packed >> np.uint64(row_bits)
    in_order &= np.uint64((1 << bits) - 1)
    packed &= np.uint64((1 << row_bits) - 1)
    return packed.view(np.int64), in_order


def _prefixes(hashes: Words, low_bits: int) -> Words:
    """The hashes with their lowest bits cleared."""
    return hashes & ~np.uint64((1 << low_bits) - 1) if low_bits < 64 else np.zeros_like(hashes)
