"""Bringing rows of one key together.

An order by hash and pane does it, except for different keys with one hash: an equal hash is only a candidate, so the
keys of neighbours are compared, and where they differ the rows are ordered once more, also by key. Keys are given as
words that are equal exactly where the keys are.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from penstock.operators.aggregate_segments import Indices, Segments, Values
from penstock.state.hash import Words

Flags = npt.NDArray[np.bool_]

_BLOCK = 1 << 15  # rows compared at a time


def group_by_pane(hashes: Words, panes: Indices, width: int, keys: Sequence[Words]) -> Segments:
    """The rows of each key and pane, ordered by hash and pane. `panes` are starts of panes that are `width` wide."""
    order, ordered_hashes = order_by_hash_and_time(hashes, panes, width)
    heads = _heads(ordered_hashes)
    _add_heads(heads, [panes], order)
    if _differ_inside(heads, keys, order):
        order = np.lexsort((*keys, panes, hashes))
        heads = _heads(hashes[order])
        _add_heads(heads, [panes, *keys], order)
    lo = np.flatnonzero(heads)
    return Segments(order, lo, np.append(lo[1:], len(hashes))[: len(lo)])


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
    """The order (None: as it stands), and the hashes in it. `panes` are multiples of `width` apart.

    Tries the cheapest way first. Each of the first two sorts by a prefix of the hash, which nearly always puts the
    whole of it in order too; that is verified."""
    if _in_order(hashes, panes):
        return None, hashes
    ranks, bits = _ranks(panes, width)
    for attempt in (_order_with_row_numbers, _order_by_prefix):
        order = attempt(hashes, ranks, bits)
        if order is not None and _never_falls(ordered := hashes[order]):
            return order, ordered
    order = np.lexsort((panes, hashes))
    return order, hashes[order]


def _never_falls(values: Words) -> bool:
    return bool(np.all(values[1:] >= values[:-1]))


def _in_order(hashes: Words, panes: Indices) -> bool:
    return _never_falls(hashes) and bool(np.all((panes[1:] >= panes[:-1]) | (hashes[1:] > hashes[:-1])))


# Fresh memory is dearer than arithmetic on a column, so what follows works in place.


def _ranks(panes: Indices, width: int) -> tuple[Words, int]:
    """Each pane's number counted from the earliest one, and how many bits that takes. Unsigned, for the panes may lie
    further apart than a signed number can say."""
    ranks = panes.view(np.uint64) - panes.min().view(np.uint64)
    ranks //= np.uint64(width)
    return ranks, int(ranks.max()).bit_length()


def _order_with_row_numbers(hashes: Words, ranks: Words, bits: int) -> Indices | None:
    """Sorts numbers made of hash prefix, pane and row, which is several times faster than sorting row numbers by a key.
    None if the prefix would be so short that ties are likely."""
    row_bits = len(hashes).bit_length()
    if 64 - bits - row_bits < 2 * row_bits:
        return None
    packed = ranks << np.uint64(row_bits)
    packed |= np.arange(len(hashes), dtype=np.uint64)
    packed |= _prefixes(hashes, bits + row_bits)
    packed.sort()
    packed &= np.uint64((1 << row_bits) - 1)
    return packed.view(np.int64)


def _order_by_prefix(hashes: Words, ranks: Words, bits: int) -> Indices:
    return np.argsort(_prefixes(hashes, bits) | ranks)


def _prefixes(hashes: Words, low_bits: int) -> Words:
    """The hashes with their lowest bits cleared."""
    return hashes & ~np.uint64((1 << low_bits) - 1)
