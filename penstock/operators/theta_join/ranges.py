"""Ranges: a test on pairs of rows that is decided by sorting the partners.

A probe row passes the test with a contiguous range of the sorted partners. The band is such a test, sorted by time; a
comparison of values is one, sorted by value. The lengths of the ranges give the number of pairs that each test leaves
before any pair is enumerated. The shortest range is enumerated, and the other tests are checked by position.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.arrow import AnyArray
from penstock.kernels.arrays import Flags, Indices, Times
from penstock.kernels.segments import Values
from penstock.progress.mark import MAX_TIME, MIN_TIME


@dataclass(frozen=True)
class PartnerRanges:
    """A test: probe row n passes with the partners order[lo[n]], ..., order[hi[n] - 1]. `order` is None if the partners
    are already sorted.

    Invariant: 0 <= lo <= hi <= the number of partners.
    """

    order: Indices | None
    lo: Indices
    hi: Indices

    @property
    def sizes(self) -> Indices:
        """Return the number of partners with which each probe row passes."""
        return self.hi - self.lo

    def places(self) -> Indices | None:
        """Return the position of each partner in the order; None if it equals the partner's index."""
        if self.order is None:
            return None
        places = np.empty(len(self.order), dtype=np.int64)
        places[self.order] = np.arange(len(self.order))
        return places


def band_ranges(probes: Times, partners: Times, before: int | None, after: int | None) -> PartnerRanges:
    """Return the pairs with probe - before <= partner <= probe + after (None: no such bound). Both arrays must be
    sorted."""
    lo = np.zeros(len(probes), dtype=np.int64)
    hi = np.full(len(probes), len(partners), dtype=np.int64)
    if before is not None:
        lo = _places(partners, probes, -before, "left")
    if after is not None:
        hi = _places(partners, probes, after, "right")
    return PartnerRanges(None, lo, np.maximum(lo, hi))


def _places(partners: Times, probes: Times, by: int, side: Literal["left", "right"]) -> Indices:
    """Return the insertion point of each probe + by among the partners; before or after all if the sum does not fit 64
    bits."""
    sums = (probes.view(np.uint64) + np.uint64(by % 2**64)).view(np.int64)  # correct if the sum fits 64 bits
    places = np.searchsorted(partners, sums, side)
    places[probes > MAX_TIME - by] = len(partners)
    places[probes < MIN_TIME - by] = 0
    return places


def comparison_ranges(probes: AnyArray, operator: str, partners: AnyArray) -> PartnerRanges:
    """Return the pairs with `probe operator partner`, for types that `condition` treats as comparable. A null passes
    with nothing. NaN equals itself and is above all numbers, in numpy's order as in DuckDB's."""
    probe_valid, partner_valid = _valid(probes), _valid(partners)
    probe_values, partner_values = _common(probes, partners)
    known = np.flatnonzero(partner_valid)
    order = known[np.argsort(partner_values[known], kind="stable")]
    lo, hi = _bounds(partner_values[order], operator, probe_values)
    lo[~probe_valid] = hi[~probe_valid] = 0
    return PartnerRanges(np.concatenate((order, np.flatnonzero(~partner_valid))), lo, hi)


def _bounds(ordered: Values, operator: str, values: Values) -> tuple[Indices, Indices]:
    """Return the range of the sorted values for which `value operator sorted value` holds."""
    none, all_ = np.zeros(len(values), dtype=np.int64), np.full(len(values), len(ordered), dtype=np.int64)
    match operator:
        case "<":
            return np.searchsorted(ordered, values, "right"), all_
        case "<=":
            return np.searchsorted(ordered, values, "left"), all_
        case ">":
            return none, np.searchsorted(ordered, values, "left")
        case ">=":
            return none, np.searchsorted(ordered, values, "right")
    return np.searchsorted(ordered, values, "left"), np.searchsorted(ordered, values, "right")


def _valid(array: AnyArray) -> Flags:
    """Return flags of the values that are not null."""
    return np.asarray(array.is_valid().to_numpy(zero_copy_only=False))


def _common(left: AnyArray, right: AnyArray) -> tuple[Values, Values]:
    """Return the values of both arrays as numbers that compare like them; arbitrary for nulls."""
    t = pa.types
    if t.is_floating(left.type) or t.is_floating(right.type):
        return _numbers(left.cast(pa.float64(), safe=False)), _numbers(right.cast(pa.float64(), safe=False))
    if t.is_integer(left.type) or t.is_timestamp(left.type):
        return _numbers(left.cast(pa.int64())), _numbers(right.cast(pa.int64()))
    ranks = pc.rank(pa.concat_arrays([left, right]), tiebreaker="dense").to_numpy()
    return ranks[: len(left)], ranks[len(left) :]


def _numbers(array: AnyArray) -> Values:
    """Return the values as an array, with zero for nulls."""
    return np.asarray(array.fill_null(0).to_numpy())
