"""Rows in the order of sites: the same rows, one piece for each site, in order of hash within it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.state.directory import Directory, groups_of_depths, uniform
from penstock.state.hash_ranges import HASH_END, MOST_BITS
from penstock.state.hot_keys import Cells

SITES = 4
DEPTHS = st.sampled_from([[1, 1], [2, 2, 2, 3, 3], [1, 4, 4, 3, 2], [4] * 16, [1, 2, 3, 4, 5, 6, 7, 8, 8]])


@st.composite
def directories(draw: st.DrawFn) -> Directory:
    groups = groups_of_depths(draw(DEPTHS))
    homes = draw(st.lists(st.integers(0, SITES - 1), min_size=len(groups), max_size=len(groups)))
    return Directory(SITES, groups, tuple(homes))


@given(directories(), st.lists(st.integers(0, HASH_END - 1), max_size=50))
def test_each_site_has_its_rows_in_one_piece_and_in_order_of_hash(directory: Directory, hashes: list[int]) -> None:
    order = directory.site_order
    assert order is not None
    column = np.asarray(hashes, np.uint64)
    column = column[np.argsort(order.words(column), kind="stable")]
    pieces = [column[part].tolist() for part in order.cuts(column)]
    assert pieces == [sorted(h for h in hashes if directory.home_at(h) == site) for site in range(SITES)]


@given(directories(), st.lists(st.integers(0, HASH_END - 1), unique=True, max_size=50))
def test_no_two_hashes_get_one_word(directory: Directory, hashes: list[int]) -> None:
    order = directory.site_order
    assert order is not None
    assert len(set(order.words(np.asarray(hashes, np.uint64)).tolist())) == len(hashes)


def deep(bits: int) -> Directory:
    groups = groups_of_depths([*range(1, bits), bits, bits])
    return Directory(2, groups, tuple(n % 2 for n in range(len(groups))))


@pytest.mark.parametrize(
    ("directory", "possible"),
    [
        (uniform(1, 1), False),  # one group: there is nothing to order
        (deep(MOST_BITS), True),
        (deep(MOST_BITS + 1), False),
        (uniform(2, 2).spread_over(Cells(17, 0, (0, 1))), False),
    ],
)
def test_where_there_is_such_an_order(directory: Directory, possible: bool) -> None:
    assert (directory.site_order is not None) == possible
