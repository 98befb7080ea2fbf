from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.state.directory import EVERYTHING, HASH_END, Group, HashRange, uniform

SITES = st.integers(1, 20)


@given(SITES, st.integers(1, 20), SITES)
def test_every_hash_has_one_home_before_and_after_rescaling(sites: int, per_site: int, later: int) -> None:
    for directory in (uniform(sites, per_site), uniform(sites, per_site).rescaled(later)):
        stretches = [part for _, part in directory.home_ranges()]
        assert (stretches[0].low, stretches[-1].high) == (0, HASH_END)
        assert all(a.high == b.low for a, b in itertools.pairwise(stretches))
        assert sorted(set(directory.homes)) == list(range(directory.sites))


@given(SITES)
def test_rescaling_shares_groups_evenly(sites: int) -> None:
    homes = uniform(4, 16).rescaled(sites).homes
    counts = [homes.count(site) for site in range(sites)]
    assert max(counts) - min(counts) <= 1


def test_a_group_is_the_range_of_its_prefix() -> None:
    assert Group(0b10, 2).range == HashRange(2**63, 3 * 2**62)
    assert Group(0, 0).range == EVERYTHING
    assert str(Group(2, 4)) == "0010"


@given(st.lists(st.integers(0, HASH_END - 1)), st.integers(0, HASH_END - 1), st.integers(1, HASH_END))
def test_the_rows_of_a_range_are_those_between_its_ends(hashes: list[int], low: int, width: int) -> None:
    part = HashRange(low, min(HASH_END, low + width))
    column = np.array(sorted(hashes), np.uint64)
    assert column[part.rows(column)].tolist() == [h for h in sorted(hashes) if part.low <= h < part.high]


@pytest.mark.parametrize(
    ("a", "b", "common"), [((0, 4), (2, 9), (2, 4)), ((0, 4), (4, 9), None), ((3, 4), (0, 9), (3, 4))]
)
def test_intersection(a: tuple[int, int], b: tuple[int, int], common: tuple[int, int] | None) -> None:
    assert HashRange(*a).intersect(HashRange(*b)) == (None if common is None else HashRange(*common))
