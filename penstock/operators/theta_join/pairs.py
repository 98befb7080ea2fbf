"""Enumeration of the pairs of a theta join in blocks, so that memory is bounded for any number of pairs.

Partners are taken in blocks, each of which covers a span of time. In a block, each probe row enumerates the pairs in
its shortest range (`ranges`). The pairs are then checked, about a million at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.arrow import AnyArray, AnyChunked
from penstock.errors import EvaluationError
from penstock.expr.evaluate.scalar import evaluate, keep
from penstock.expr.tree import Expr, Named
from penstock.expr.walk import all_of, columns_of
from penstock.kernels.arrays import Indices
from penstock.operators.theta_join.condition import Comparison, Conjunct
from penstock.operators.theta_join.ranges import PartnerRanges, comparison_ranges
from penstock.types import as_array

_PARTNERS = 1 << 16  # partners in a block
_PAIRS = 1 << 20  # pairs enumerated at a time, or as many as fit _BYTES
_BYTES = 1 << 28
_SORTING = 4  # with more pairs per partner than this, it pays to sort the partners of a block

Pairs = tuple[Indices, Indices]  # the indices of probe rows, and of their partners


@dataclass(frozen=True)
class Encounter:
    """Probe rows of `port` and candidate partners of the other port: probe row n has the candidates lo[n], ..., hi[n] -
    1.

    Invariant: lo <= hi; both are ascending.
    """

    port: int
    probes: pa.Table
    partners: pa.Table
    lo: Indices
    hi: Indices

    def part(self, first: int, last: int) -> Encounter:
        """Return the partners `first` .. `last - 1`, and the probe rows that have one of them as a candidate."""
        start, end = int(np.searchsorted(self.hi, first, "right")), int(np.searchsorted(self.lo, last, "left"))
        lo, hi = (np.clip(bound[start:end], first, last) - first for bound in (self.lo, self.hi))
        probes = self.probes.slice(start, max(end - start, 0))
        return Encounter(self.port, probes, self.partners.slice(first, last - first), lo, hi)

    @property
    def pairs_at_a_time(self) -> int:
        """Return the number of pairs of average rows that may be held in memory."""
        sides = [side for side in (self.probes, self.partners) if side.num_rows]
        size = sum(side.nbytes / side.num_rows for side in sides)
        return max(1, min(_PAIRS, int(_BYTES / max(size, 1))))


def joined(encounter: Encounter, parts: tuple[Conjunct, ...], result: pa.Schema) -> Iterator[pa.Table]:
    """Yield the result rows of all pairs that satisfy the condition. `result` names columns of either side."""
    step = min(_PARTNERS, encounter.pairs_at_a_time)
    for first in range(0, encounter.partners.num_rows, step):
        block = encounter.part(first, min(first + step, encounter.partners.num_rows))
        tests, rest = _tests(block, parts)
        for pairs in _candidates(tests, block.pairs_at_a_time):
            checked = _checked(block, pairs, all_of(part.expression for part in rest))
            if len(checked[0]):
                yield _taken(block, checked, result)


def _tests(block: Encounter, parts: tuple[Conjunct, ...]) -> tuple[list[PartnerRanges], tuple[Conjunct, ...]]:
    """Return the tests that ranges decide, and the conjuncts that remain. Sorts only if there are many pairs."""
    band = PartnerRanges(None, block.lo, block.hi)
    if int(band.sizes.sum()) <= _SORTING * block.partners.num_rows:
        return [band], parts
    ranges = [None if part.comparison is None else _compared(block, part.comparison) for part in parts]
    rest = tuple(part for part, found in zip(parts, ranges, strict=True) if found is None)
    return [band, *(found for found in ranges if found is not None)], rest


def _compared(block: Encounter, comparison: Comparison) -> PartnerRanges | None:
    """Return the ranges of a comparison; None if a side cannot be computed for some row, because another conjunct may
    guard it."""
    own, other = comparison.sides[block.port], comparison.sides[1 - block.port]
    try:
        probes, partners = _values(block.probes, own), _values(block.partners, other)
    except EvaluationError:
        return None
    return comparison_ranges(probes, comparison.seen_from(block.port), partners)


def _values(rows: pa.Table, expression: Expr) -> AnyArray:
    """Return the values of an expression."""
    return as_array(evaluate(rows, (Named("value", expression),)).column(0))


def _candidates(tests: list[PartnerRanges], at_a_time: int) -> Iterator[Pairs]:
    """Yield the pairs that pass all tests. Only the pairs in the shortest range of each probe row are enumerated."""
    sizes = np.stack([test.sizes for test in tests])
    best = np.argmin(sizes, axis=0)
    least = sizes[best, np.arange(len(best))]
    ends = np.cumsum(least)
    cuts = np.flatnonzero(np.diff((ends - least) // at_a_time, prepend=-1))
    places = [test.places() for test in tests]
    for first, last in zip(cuts, np.append(cuts[1:], len(best)), strict=False):
        probes = np.repeat(np.arange(first, last), least[first:last])
        partners = _written(tests, best[first:last], slice(first, last))
        yield _passing(tests, places, (probes, partners)) if len(tests) > 1 else (probes, partners)


def _written(tests: list[PartnerRanges], best: Indices, probes: slice) -> Indices:
    """Return the partners in the range of the best test of each probe row, range by range."""
    lo = np.stack([test.lo[probes] for test in tests])[best, np.arange(len(best))]
    hi = np.stack([test.hi[probes] for test in tests])[best, np.arange(len(best))]
    sizes = hi - lo
    ends = np.cumsum(sizes)
    places: Indices = np.arange(ends[-1] if len(ends) else 0) + np.repeat(lo - (ends - sizes), sizes)
    for number, test in enumerate(tests):
        if test.order is not None:
            chosen = np.repeat(best == number, sizes)
            places[chosen] = test.order[places[chosen]]
    return places


def _passing(tests: list[PartnerRanges], places: list[Indices | None], pairs: Pairs) -> Pairs:
    """Return the pairs that pass all tests, compared by their positions in the orders of the tests."""
    probes, partners = pairs
    for test, place in zip(tests, places, strict=True):
        at = partners if place is None else place[partners]
        passed = (at >= test.lo[probes]) & (at < test.hi[probes])
        probes, partners = probes[passed], partners[passed]
    return probes, partners


def _checked(block: Encounter, pairs: Pairs, condition: Expr | None) -> Pairs:
    """Return the pairs for which the condition holds."""
    if condition is None or not len(pairs[0]):
        return pairs
    reads = dict.fromkeys(columns_of(condition))
    columns = dict(_columns(block, pairs, list(reads)))
    table = pa.table({**columns, "#probe": pairs[0], "#partner": pairs[1]})
    kept = keep(table, condition)
    probes, partners = (as_array(kept.column(name)).to_numpy() for name in ("#probe", "#partner"))
    return probes, partners


def _taken(block: Encounter, pairs: Pairs, result: pa.Schema) -> pa.Table:
    """Return the result rows of the pairs."""
    columns = dict(_columns(block, pairs, result.names))
    return pa.table([columns[name] for name in result.names], schema=result)


def _columns(block: Encounter, pairs: Pairs, names: list[str]) -> Iterator[tuple[str, AnyChunked]]:
    """Yield the named columns from whichever side has them, with one row per pair."""
    for rows, numbers in zip((block.probes, block.partners), pairs, strict=True):
        held = [name for name in names if name in rows.column_names]
        yield from zip(held, rows.select(held).take(numbers).columns, strict=True)
