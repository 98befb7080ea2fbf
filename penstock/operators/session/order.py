"""Which rows or fragments of a key form one session: those that follow each other in less than the gap."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from penstock.kernels.arrays import Flags, Indices, Times, Words
from penstock.kernels.order import group_by_key, order_by_hash_and_time
from penstock.kernels.segments import Segments


def group_by_session(hashes: Words, firsts: Times, lasts: Times, keys: Sequence[Words], gap: int) -> Segments:
    """The stretches of time from `firsts` to `lasts`, by session: ordered by hash, key and last time. Stretches of a
    key are in one session if they overlap or lie less than `gap` apart, or are joined by others."""
    order, heads = _order_by_key_and_time(hashes, lasts, keys)
    if order is not None:
        firsts, lasts = firsts[order], lasts[order]
    # Everything before a place belongs to earlier sessions exactly if as many stretches end (a gap) before the next
    # beginning as have begun. So beginnings and ends are each put in order, and compared place by place.
    begins = _sorted_within(firsts, heads)
    heads[1:] |= begins[1:] >= lasts[:-1] + gap
    return _segments(order, heads)


def cut_where(groups: Segments, values: Times) -> Segments:
    """The groups cut where a value, taken in their order, changes."""
    ordered = values if groups.order is None else values[groups.order]
    heads = np.ones(len(ordered), dtype=np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=heads[1:])
    heads[groups.lo] = True
    return _segments(groups.order, heads)


def _order_by_key_and_time(hashes: Words, times: Times, keys: Sequence[Words]) -> tuple[Indices | None, Flags]:
    """An order (None: as it stands) by hash, key and time, and where a key begins in it."""
    order, ordered = order_by_hash_and_time(hashes, times)
    if order is not None:
        times, keys = times[order], [words[order] for words in keys]
    again, heads = group_by_key(ordered, times, keys)
    if again is None:
        return order, heads
    return again if order is None else order[again], heads


def _sorted_within(values: Times, heads: Flags) -> Times:
    """The values sorted within each key."""
    if np.all((values[1:] >= values[:-1]) | heads[1:]):
        return values
    return values[np.lexsort((values, np.cumsum(heads)))]


def _segments(order: Indices | None, heads: Flags) -> Segments:
    lo = np.flatnonzero(heads)
    return Segments(order, lo, np.append(lo[1:], len(heads))[: len(lo)])
