"""Bands of joins: bounds on the difference between the times of two inputs, and the bounds they imply for all pairs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import product

Leads = tuple[tuple[int | None, ...], ...]


@dataclass(frozen=True)
class Band:
    """A bound on two times: times[left] - before <= times[right] <= times[left] + after. None: no such bound."""

    left: int
    right: int
    before: int | None
    after: int | None


def leads(inputs: int, bands: Iterable[Band]) -> Leads:
    """Return the bounds that the bands imply for each pair of inputs, as shortest paths.

    `leads[i][j]` is the largest amount by which the time of input j may exceed that of input i in one combination
    (negative: it must lie below by at least that much); None if it is unbounded.
    """
    table: list[list[int | None]] = [[0 if i == j else None for j in range(inputs)] for i in range(inputs)]
    for band in bands:
        table[band.left][band.right] = _tighter(table[band.left][band.right], band.after)
        table[band.right][band.left] = _tighter(table[band.right][band.left], band.before)
    for via, i, j in product(range(inputs), repeat=3):
        first, second = table[i][via], table[via][j]
        if first is not None and second is not None:
            table[i][j] = _tighter(table[i][j], first + second)
    return tuple(map(tuple, table))


def _tighter(a: int | None, b: int | None) -> int | None:
    """Return the smaller of two bounds, where None means unbounded."""
    return b if a is None else a if b is None else min(a, b)
