"""Partials of the aggregates: counts, exact sums, distinct values, extremes, first and last, variance.

A sum of integers is stored as two 64-bit columns, its upper and lower parts. It is exact for any number of parts merged
in any order, so only the sum of a whole window can overflow, and it overflows in every run or in none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.arrow import AnyArray, as_lists, nulls
from penstock.kernels.arrays import Flags, Indices
from penstock.kernels.codes import Coded, Codes, decimal_integers, decimals, distinct, encode, integers, pair
from penstock.kernels.segments import Segments, Values, masked, valid_mask
from penstock.progress.mark import MAX_TIME, MIN_TIME

_SHIFT = np.int64(32)
_LOWER = np.int64(2**32 - 1)


@dataclass(frozen=True)
class RowCount:
    """The number of rows."""

    @property
    def parts(self) -> dict[str, pa.DataType]:
        return {"rows": pa.int64()}

    def of_rows(self, column: AnyArray | None, times: Indices, groups: Segments) -> list[AnyArray]:
        return [pa.array(groups.sizes)]

    def merge(self, parts: Sequence[AnyArray], groups: Segments) -> list[AnyArray]:
        return [pa.array(groups.add(parts[0].to_numpy()))]

    final = merge


@dataclass(frozen=True)
class Count:
    """The number of values that are not null."""

    @property
    def parts(self) -> dict[str, pa.DataType]:
        return {"values": pa.int64()}

    def of_rows(self, column: AnyArray | None, times: Indices, groups: Segments) -> list[AnyArray]:
        assert column is not None
        valid = valid_mask(column)
        return [pa.array(groups.sizes if valid is None else groups.add(valid.astype(np.int64)))]

    def merge(self, parts: Sequence[AnyArray], groups: Segments) -> list[AnyArray]:
        return [pa.array(groups.add(parts[0].to_numpy()))]

    final = merge


@dataclass(frozen=True)
class WholeSum:
    """The sum of integers, or of decimals as scaled integers: upper * 2**32 + lower.

    Invariant: 0 <= lower < 2**32; both parts are null if there are no values.
    """

    @property
    def parts(self) -> dict[str, pa.DataType]:
        return {"upper": pa.int64(), "lower": pa.int64()}

    def of_rows(self, column: AnyArray | None, times: Indices, groups: Segments) -> list[AnyArray]:
        assert column is not None
        values = decimal_integers(column) if pa.types.is_decimal(column.type) else integers(column)
        if _fits(values, groups):
            whole = groups.add(values)
            return _carried(whole >> _SHIFT, whole & _LOWER, column, groups)
        return _carried(groups.add(values >> _SHIFT), groups.add(values & _LOWER), column, groups)

    def merge(self, parts: Sequence[AnyArray], groups: Segments) -> list[AnyArray]:
        upper, lower = (groups.add(integers(part)) for part in parts)
        return _carried(upper, lower, parts[0], groups)

    final = merge


def _fits(values: Codes, groups: Segments) -> bool:
    """Return whether no sum of a group can exceed 63 bits."""
    largest = max(-int(values.min()), int(values.max()))
    return largest * int(groups.sizes.max()) < 2**63


def _carried(upper: Codes, lower: Codes, source: AnyArray, groups: Segments) -> list[AnyArray]:
    """Carry the overflow of the lower parts to the upper parts; null in groups without values."""
    valid = valid_mask(source)
    present = None if valid is None else groups.any(valid)
    carried = upper + (lower >> _SHIFT), lower & _LOWER
    return [masked(pa.array(part), present) for part in carried]


def whole_sum(upper: AnyArray, lower: AnyArray) -> AnyArray | None:
    """Return the sums as 64-bit integers, or None if one of them overflows."""
    high = integers(upper)
    if np.any(high != high.astype(np.int32)):
        return None
    return masked(pa.array(high << _SHIFT | integers(lower)), valid_mask(upper))


def decimal_sum(upper: AnyArray, lower: AnyArray, scale: int) -> AnyArray:
    """Return the sums as decimals of 38 digits."""
    high = integers(upper)
    total = decimals(high << _SHIFT | integers(lower), high >> _SHIFT, pa.decimal128(38, scale))
    return masked(total, valid_mask(upper))


def whole_average(upper: AnyArray, lower: AnyArray, count: AnyArray, scale: int) -> AnyArray:
    """Return the sums divided by the counts, as doubles."""
    total = integers(upper).astype(np.float64) * 2.0**32 + integers(lower)
    return pc.divide(masked(pa.array(total / 10.0**scale), valid_mask(upper)), count.cast(pa.float64()))


@dataclass(frozen=True)
class FloatSum:
    """The sum of floats; null if there are no values."""

    @property
    def parts(self) -> dict[str, pa.DataType]:
        return {"sum": pa.float64()}

    def of_rows(self, column: AnyArray | None, times: Indices, groups: Segments) -> list[AnyArray]:
        assert column is not None
        return self.merge([column.cast(pa.float64())], groups)

    def merge(self, parts: Sequence[AnyArray], groups: Segments) -> list[AnyArray]:
        valid = valid_mask(parts[0])
        with np.errstate(all="ignore"):  # infinities of both signs give NaN, which is correct
            total = groups.add(floats(parts[0]))
        return [masked(pa.array(total), None if valid is None else groups.any(valid))]

    final = merge


def floats(array: AnyArray) -> Values:
    """Return doubles, with zero for nulls."""
    return np.asarray((array.fill_null(0.0) if array.null_count else array).to_numpy())


@dataclass(frozen=True)
class DistinctValues:
    """The partial of `count_distinct`: one list of values per group."""

    type: pa.DataType

    @property
    def parts(self) -> dict[str, pa.DataType]:
        return {"values": pa.list_(pa.field("item", self.type))}

    def of_rows(self, column: AnyArray | None, times: Indices, groups: Segments) -> list[AnyArray]:
        assert column is not None
        valid = valid_mask(column)
        rows = np.arange(len(column)) if valid is None else np.flatnonzero(valid)
        return [self._lists(groups.places(len(column))[rows], encode(column.drop_null()), groups)]

    def merge(self, parts: Sequence[AnyArray], groups: Segments) -> list[AnyArray]:
        places, coded = _occurrences(parts[0], groups)
        return [self._lists(places, coded, groups)]

    def _lists(self, places: Indices, coded: Coded, groups: Segments) -> AnyArray:
        """Return the distinct values of each group as lists. The groups must be contiguous and without overlap."""
        owners = groups.spread(np.arange(len(groups)))[places]
        pairs = pair(owners, coded.codes)
        owners, codes = pairs.split(distinct(pairs.codes))
        offsets = np.append(0, np.cumsum(np.bincount(owners, minlength=len(groups))))
        values = coded.decode(codes)
        return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), values, type=self.parts["values"])

    def final(self, parts: Sequence[AnyArray], windows: Segments) -> list[AnyArray]:
        """Return the number of distinct values of each window."""
        rows = len(parts[0])
        places, following = _next_occurrences(*_occurrences(parts[0], windows), none=rows)
        # Both borders of the windows are ascending, so the windows that hold a row are a range.
        ended = np.searchsorted(windows.hi, np.arange(rows + 1), side="right")
        begun = np.searchsorted(windows.lo, np.arange(rows), side="right")
        first, behind = ended[places], np.minimum(begun[places], ended[following])
        some = first < behind
        changes = np.bincount(first[some], minlength=len(windows) + 1)
        changes -= np.bincount(behind[some], minlength=len(windows) + 1)
        return [pa.array(np.cumsum(changes)[: len(windows)])]


def _occurrences(lists: AnyArray, groups: Segments) -> tuple[Indices, Coded]:
    """Return every value of every list, and the position of the list's row."""
    lengths = as_lists(lists).value_lengths().to_numpy()
    return np.repeat(groups.places(len(lists)), lengths), encode(as_lists(lists).flatten())


def _next_occurrences(places: Indices, coded: Coded, none: int) -> tuple[Indices, Indices]:
    """Return the occurrences by value, each with the position of the next occurrence of its value, or `none`. The next
    one may belong to another key; it then lies behind all windows of this key, which has the same effect as `none`."""
    pairs = pair(coded.codes, places)
    codes, places = pairs.split(np.sort(pairs.codes))
    following = np.full(len(places), none)
    same = codes[1:] == codes[:-1]
    following[:-1][same] = places[1:][same]
    return places, following


@dataclass(frozen=True)
class Extreme:
    """The minimum or the maximum; null if there are no values."""

    type: pa.DataType
    greatest: bool

    @property
    def parts(self) -> dict[str, pa.DataType]:
        return {"value": self.type}

    def of_rows(self, column: AnyArray | None, times: Indices, groups: Segments) -> list[AnyArray]:
        assert column is not None
        return self.merge([column], groups)

    def merge(self, parts: Sequence[AnyArray], groups: Segments) -> list[AnyArray]:
        (values,) = parts
        if values.null_count == len(values):
            return [nulls(len(groups), self.type)]
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

    def of_rows(self, column: AnyArray | None, times: Indices, groups: Segments) -> list[AnyArray]:
        assert column is not None
        return self.merge([pa.array(times), column], groups)

    def merge(self, parts: Sequence[AnyArray], groups: Segments) -> list[AnyArray]:
        times, values = parts
        if values.null_count == len(values):
            return [pa.nulls(len(groups), pa.int64()), nulls(len(groups), self.type)]
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


@dataclass(frozen=True)
class VarianceParts:
    """The count, mean and sum of squared deviations. Invariant: a group without values has zeros in all three parts."""

    @property
    def parts(self) -> dict[str, pa.DataType]:
        return {"values": pa.int64(), "mean": pa.float64(), "squares": pa.float64()}

    def of_rows(self, column: AnyArray | None, times: Indices, groups: Segments) -> list[AnyArray]:
        assert column is not None
        valid = valid_mask(column)
        weights = np.ones(len(column), dtype=np.int64) if valid is None else valid.astype(np.int64)
        return _merged(weights, floats(column.cast(pa.float64())), np.zeros(len(column)), groups)

    def merge(self, parts: Sequence[AnyArray], groups: Segments) -> list[AnyArray]:
        weights, means, squares = (part.to_numpy() for part in parts)
        return _merged(weights, means, squares, groups)

    final = merge


def _merged(weights: Values, means: Values, squares: Values, groups: Segments) -> list[AnyArray]:
    """Merge the parts of each group, in blocks of bounded size."""
    columns = (weights, means, squares)
    with np.errstate(all="ignore"):  # infinities give NaN, which is correct
        blocks = [_merged_tiles(part, *(c[part.order] for c in columns)) for part in groups.apart()]
    types = (pa.int64(), pa.float64(), pa.float64())
    return [
        pa.array(np.concatenate([block[i] for block in blocks]) if blocks else [], type_)
        for i, type_ in enumerate(types)
    ]


def _merged_tiles(part: Segments, weights: Values, means: Values, squares: Values) -> tuple[Values, Values, Values]:
    """Merge the parts of contiguous groups."""
    tiles = Segments(None, part.lo, part.hi)
    total = tiles.add(weights)
    # First take deviations from a value of the group, so that the variance of equal values is exactly zero.
    base = np.where(total > 0, tiles.least(np.where(weights > 0, means, np.inf)), 0.0)
    mean = base + tiles.add(weights * (means - tiles.spread(base))) / np.maximum(total, 1)
    deviation = means - tiles.spread(mean)
    return total, mean, tiles.add(squares + weights * deviation * deviation)


def variance(values: AnyArray, squares: AnyArray, *, sample: bool, root: bool) -> AnyArray:
    """Return the variance or, with `root`, its root. Null without values; with `sample`, also with one value."""
    divisor = values.to_numpy() - (1 if sample else 0)
    spread = squares.to_numpy() / np.maximum(divisor, 1)
    return masked(pa.array(np.sqrt(spread) if root else spread), divisor > 0)
