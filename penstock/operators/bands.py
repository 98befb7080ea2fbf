"""Bands: how far the times of two inputs of a join may lie apart, and what follows for every pair of inputs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import product

Leads = tuple[tuple[int | None, ...], ...]


@dataclass(frozen=True)
class Band:
    """times[left] - before <= times[right] <= times[left] + after; None where there is no such bound."""

    left: int
    right: int
    before: int | None
    after: int | None


def leads(inputs: int, bands: Iterable[Band]) -> Leads:
    """`leads[i][j]` is by how much the time of input j may lie above that of input i in one combination (negative: it
    must lie below); None where nothing bounds it. Follows from the bands by adding them up along all paths."""
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
    return b if a is None else a if b is None else min(a, b)
