"""Partials of `count_distinct`: the list of distinct values of each group.

Overlapping windows are counted without expanding their rows. A value counts once per window, at its last occurrence in
it. An occurrence is the last one in exactly those windows that hold it but not the next occurrence, and these windows
are consecutive.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.kernels.arrays import Indices
from penstock.kernels.codes import Coded, distinct, encode, pair
from penstock.kernels.segments import Segments, valid_mask


@dataclass(frozen=True)
class DistinctValues:
    """The partial of `count_distinct`: one list of values per group."""

    type: pa.DataType

    @property
    def parts(self) -> dict[str, pa.DataType]:
        return {"values": pa.list_(pa.field("item", self.type))}

    def of_rows(self, column: pa.Array | None, times: Indices, groups: Segments) -> list[pa.Array]:
        assert column is not None
        valid = valid_mask(column)
        rows = np.arange(len(column)) if valid is None else np.flatnonzero(valid)
        return [self._lists(groups.places(len(column))[rows], encode(column.drop_null()), groups)]

    def merge(self, parts: Sequence[pa.Array], groups: Segments) -> list[pa.Array]:
        places, coded = _occurrences(parts[0], groups)
        return [self._lists(places, coded, groups)]

    def _lists(self, places: Indices, coded: Coded, groups: Segments) -> pa.Array:
        """Return the distinct values of each group as lists. The groups must be contiguous and without overlap."""
        owners = groups.spread(np.arange(len(groups)))[places]
        pairs = pair(owners, coded.codes)
        owners, codes = pairs.split(distinct(pairs.codes))
        offsets = np.append(0, np.cumsum(np.bincount(owners, minlength=len(groups))))
        values = coded.decode(codes)
        return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), values, type=self.parts["values"])

    def final(self, parts: Sequence[pa.Array], windows: Segments) -> list[pa.Array]:
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


def _occurrences(lists: pa.Array, groups: Segments) -> tuple[Indices, Coded]:
    """Return every value of every list, and the position of the list's row."""
    lengths = lists.value_lengths().to_numpy()
    return np.repeat(groups.places(len(lists)), lengths), encode(lists.flatten())


def _next_occurrences(places: Indices, coded: Coded, none: int) -> tuple[Indices, Indices]:
    """Return the occurrences by value, each with the position of the next occurrence of its value, or `none`. The next
    one may belong to another key; it then lies behind all windows of this key, which has the same effect as `none`."""
    pairs = pair(coded.codes, places)
    codes, places = pairs.split(np.sort(pairs.codes))
    following = np.full(len(places), none)
    same = codes[1:] == codes[:-1]
    following[:-1][same] = places[1:][same]
    return places, following
