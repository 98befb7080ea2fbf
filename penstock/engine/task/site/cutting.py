"""Cutting a range of hashes into work items.

Borders are as short prefixes as possible, so that the same ones come again in later epochs: with a backlog, ranges that
were reached lie beside such that were not, and borders anywhere would leave ever smaller pieces.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from penstock.state.hash_ranges import Hashes, HashRange


def cut(part: HashRange, columns: Sequence[Hashes], most_rows: int) -> Iterator[HashRange]:
    """The range in parts, of which none is without rows, and none has more than `most_rows` unless they are of one
    hash. `columns` are the hashes of the rows of the range, each in order."""
    filled = [hashes for hashes in columns if len(hashes)]
    if sum(map(len, filled)) <= most_rows:
        yield part
        return
    first, last = min(int(hashes[0]) for hashes in filled), max(int(hashes[-1]) for hashes in filled)
    if first == last:
        yield part
        return
    border = shortest_prefix(first, last)
    places = [int(np.searchsorted(hashes, np.uint64(border))) for hashes in filled]
    below = [hashes[:place] for hashes, place in zip(filled, places, strict=True)]
    above = [hashes[place:] for hashes, place in zip(filled, places, strict=True)]
    yield from cut(HashRange(part.low, border), below, most_rows)
    yield from cut(HashRange(border, part.high), above, most_rows)


def shortest_prefix(first: int, last: int) -> int:
    """Of the numbers above `first` up to `last` the one with most zeros at its end."""
    low_bits = (first ^ last).bit_length() - 1
    return last >> low_bits << low_bits
