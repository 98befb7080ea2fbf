"""Arrival of rows: batches of one stream, or of two substreams that do not wait for each other."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from random import Random

import pyarrow as pa

from penstock.testing import cut, disordered
from tests.support.queries.data import SECOND


@dataclass(frozen=True)
class Arrivals:
    """Batches in order of arrival. `substreams` names the substream of each batch; empty if there is only one."""

    batches: tuple[pa.Table, ...]
    substreams: tuple[str, ...] = ()


def random_arrivals(random: Random, rows: pa.Table, slack: int) -> Arrivals:
    """Divide rows in order of time into batches in an order of arrival in which no row is late."""
    if rows.num_rows >= 2 and random.random() < 0.25:
        return two_substreams(random, rows, slack)
    return Arrivals(tuple(cut(random, disordered(random, rows, slack))))


def late_arrivals(random: Random, rows: pa.Table) -> Arrivals:
    """Divide rows in order of time into batches in an order of arrival that exceeds any slack, some of two
    substreams."""
    arrived = disordered(random, rows, random.choice([8 * SECOND, 15 * SECOND, 25 * SECOND]))
    borders = sorted(random.randint(0, rows.num_rows) for _ in range(random.randint(3, 9)))
    parts = [arrived.slice(low, high - low) for low, high in pairwise([0, *borders, rows.num_rows])]
    batches = tuple(_filled(parts)) or (rows,)
    two = random.random() < 0.1
    return Arrivals(batches, tuple(random.choice(["first", "second"]) for _ in batches) if two else ())


def two_substreams(random: Random, rows: pa.Table, slack: int) -> Arrivals:
    """Divide rows into two substreams, each within the slack of itself only, so one may be far ahead. A stream does not
    wait for a substream that it has not seen yet, so the earliest row comes first, and then a batch of the other
    substream."""
    of_first = pa.array([n == 0 or random.random() < 0.5 for n in range(rows.num_rows)])
    first = disordered(random, rows.filter(of_first).slice(1), slack)
    second = disordered(random, rows.filter(pa.compute.invert(of_first)), slack)
    left = {"first": _filled(cut(random, first)), "second": _filled(cut(random, second))}
    order = [("first", rows.slice(0, 1)), *(("second", part) for part in left["second"][:1])]
    left["second"] = left["second"][1:]
    names = random.sample([name for name in left for _ in left[name]], sum(map(len, left.values())))
    order += [(name, left[name].pop(0)) for name in names]
    return Arrivals(tuple(batch for _, batch in order), tuple(name for name, _ in order))


def _filled(batches: list[pa.Table]) -> list[pa.Table]:
    return [batch for batch in batches if batch.num_rows]
