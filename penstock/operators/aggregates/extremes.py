"""Partials of `min`, `max`, `first` and `last`, which pick one value of the column and skip nulls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.kernels.arrays import Flags, Indices
from penstock.kernels.codes import Codes, encode, integers, pair
from penstock.kernels.segments import Segments, masked, valid_mask
from penstock.progress.mark import MAX_TIME, MIN_TIME


@dataclass(frozen=True)
class Extreme:
    """The minimum or the maximum; null if there are no values."""

    type: pa.DataType
    greatest: bool

    @property
    def parts(self) -> dict[str, pa.DataType]:
        return {"value": self.type}

    def of_rows(self, column: pa.Array | None, times: Indices, groups: Segments) -> list[pa.Array]:
        assert column is not None
        return self.merge([column], groups)

    def merge(self, parts: Sequence[pa.Array], groups: Segments) -> list[pa.Array]:
        (values,) = parts
        if values.null_count == len(values):
            return [pa.nulls(len(groups), self.type)]
        coded = encode(values)
        best, present = _best(coded.codes, valid_mask(values), groups, self.greatest)
        return [masked(coded.decode(best), present)]

    final = merge


@dataclass(frozen=True)
class Edge:
    """The value at the first or the last time. Of equal times, `first` takes the least value and `last` the greatest.
    Both parts are null if there are no values."""

    type: pa.DataType
    last: bool

    @property
    def parts(self) -> dict[str, pa.DataType]:
        return {"time": pa.int64(), "value": self.type}

    def of_rows(self, column: pa.Array | None, times: Indices, groups: Segments) -> list[pa.Array]:
        assert column is not None
        return self.merge([pa.array(times), column], groups)

    def merge(self, parts: Sequence[pa.Array], groups: Segments) -> list[pa.Array]:
        times, values = parts
        if values.null_count == len(values):
            return [pa.nulls(len(groups), pa.int64()), pa.nulls(len(groups), self.type)]
        coded = encode(values)
        pairs = pair(integers(times), coded.codes)
        best, present = _best(pairs.codes, valid_mask(values), groups, self.last)
        best_times, best_codes = pairs.split(best)
        return [masked(pa.array(best_times), present), masked(coded.decode(best_codes), present)]

    final = merge


def _best(codes: Codes, valid: Flags | None, groups: Segments, greatest: bool) -> tuple[Codes, Flags | None]:
    """Return the least or greatest code of each group, and flags of the groups that have one (None: all). The other
    groups get an arbitrary valid code."""
    choose = groups.greatest if greatest else groups.least
    if valid is None:
        return choose(codes), None
    present = groups.any(valid)
    best = choose(np.where(valid, codes, np.int64(MIN_TIME if greatest else MAX_TIME)))
    return np.where(present, best, codes[np.argmax(valid)]), present
