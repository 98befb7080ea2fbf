"""Reductions over ranges of rows, against the same done range by range."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from penstock.kernels.segments import Segments


@st.composite
def ranges(draw: st.DrawFn) -> tuple[np.ndarray, Segments]:
    """Some values, and ranges over them that may overlap, touch, leave gaps, and stop short of either end."""
    values = np.array(draw(st.lists(st.integers(-9, 9), min_size=1, max_size=20)))
    borders = st.lists(st.integers(0, len(values) - 1), max_size=8).map(sorted)
    lo = np.array(draw(borders), dtype=np.int64)
    hi = np.maximum.accumulate(np.minimum(lo + draw(st.integers(1, 5)), len(values))).astype(np.int64)
    order = draw(st.sampled_from([None, np.array(draw(st.permutations(range(len(values)))), dtype=np.int64)]))
    return values, Segments(order, lo, hi)


@given(ranges())
def test_reductions(case: tuple[np.ndarray, Segments]) -> None:
    values, segments = case
    arranged = values if segments.order is None else values[segments.order]
    parts = [arranged[lo:hi] for lo, hi in zip(segments.lo, segments.hi, strict=True)]
    assert segments.add(values).tolist() == [p.sum() for p in parts]
    assert segments.least(values).tolist() == [p.min() for p in parts]
    assert segments.greatest(values).tolist() == [p.max() for p in parts]
    assert segments.any(values > 0).tolist() == [bool((p > 0).any()) for p in parts]
    assert values[segments.first_rows].tolist() == [p[0] for p in parts]
    assert values[segments.rows()].tolist() == [v for p in parts for v in p]
    assert arranged[segments.places(len(values))].tolist() == values.tolist()
    assert [total for part in segments.apart() for total in part.add(values)] == [p.sum() for p in parts]


def test_ranges_that_touch_may_stop_short_of_the_end() -> None:
    segments = Segments(None, np.array([0, 2]), np.array([2, 4]))
    assert segments.add(np.array([1, 2, 3, 4, 100])).tolist() == [3, 7]
