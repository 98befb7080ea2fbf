"""Cutting ranges of hashes into items."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from penstock.engine.task.site.view import cut, shortest_prefix
from penstock.state.hash_ranges import EVERYTHING, HashRange

hashes = st.lists(st.integers(0, 2**64 - 1) | st.integers(0, 9), max_size=30)


@given(st.lists(hashes, max_size=4), st.integers(1, 12))
def test_parts_cover_the_range_and_none_is_too_large(columns: list[list[int]], most: int) -> None:
    arrays = [np.sort(np.asarray(column, np.uint64)) for column in columns]
    parts = list(cut(EVERYTHING, arrays, most))
    assert [part.low for part in parts] == [0, *(part.high for part in parts[:-1])]
    assert parts[-1].high == EVERYTHING.high
    for part in parts:
        inside = [h for column in columns for h in column if part.low <= h < part.high]
        assert len(inside) <= most or len(set(inside)) == 1
        assert inside or len(parts) == 1


@given(st.lists(hashes, max_size=3), st.lists(hashes, max_size=3))
def test_borders_come_again_with_other_rows(some: list[list[int]], others: list[list[int]]) -> None:
    """A border is the shortest prefix between two rows, and with more rows it stays one."""
    few = [np.sort(np.asarray(column, np.uint64)) for column in some]
    many = [*few, *(np.sort(np.asarray(column, np.uint64)) for column in others)]
    borders = {part.low for part in cut(EVERYTHING, few, 1)}
    assert borders <= {part.low for part in cut(EVERYTHING, many, 1)}


@given(st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1))
def test_the_border_lies_between_and_no_shorter_prefix_does(one: int, other: int) -> None:
    first, last = min(one, other), max(one, other)
    if first < last:
        border = shortest_prefix(first, last)
        assert first < border <= last
        zeros = (border & -border).bit_length() - 1
        step = 1 << (zeros + 1)
        assert (last // step) * step <= first  # no multiple of twice the step lies between


def test_a_range_is_cut_at_the_prefixes_of_its_rows() -> None:
    rows = np.asarray([1, 2, 5, 6, 7], np.uint64)
    assert list(cut(HashRange(0, 8), [rows], 2)) == [HashRange(0, 4), HashRange(4, 6), HashRange(6, 8)]
