"""Rows that are tallied, beside the same rows sorted."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.kernels import segments as aggregate_tallies
from penstock.kernels.order import group, group_by_pane
from penstock.kernels.segments import Tallies

ROWS = 5000


def columns(seed: int, keys: int, panes: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Hashes, panes and keys of some rows. No two keys agree in the first bits of their hashes."""
    draw = np.random.default_rng(seed)
    prefixes = draw.permutation(1 << 16)[:keys].astype(np.uint64)
    hashes = (prefixes << np.uint64(48)) | draw.integers(0, 2**48, keys, dtype=np.uint64)
    key = draw.integers(0, keys, ROWS)
    return hashes[key], draw.integers(-panes, panes, ROWS) * 10, key.astype(np.uint64)


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 2**32), st.integers(1, 38), st.integers(1, 8))  # with at least eight rows in a group
def test_tallies_are_what_sorting_gives(seed: int, keys: int, panes: int) -> None:
    hashes, starts, key = columns(seed, keys, panes)
    found, expected = group(hashes, starts, 10, [key]), group_by_pane(hashes, starts, 10, [key])
    assert isinstance(found, Tallies)
    for part in ("lo", "hi", "sizes"):
        assert np.array_equal(getattr(found, part), getattr(expected, part)), part
    for column in (hashes, starts, key):
        assert np.array_equal(column[found.first_rows], column[expected.first_rows])
    draw = np.random.default_rng(seed)
    whole, real = draw.integers(-(2**63), 2**63, ROWS), draw.normal(size=ROWS)
    assert np.array_equal(found.add(whole), expected.add(whole))
    assert np.allclose(found.add(real), expected.add(real), rtol=1e-12, atol=1e-12)
    assert np.array_equal(found.any(real > 2), expected.any(real > 2))
    assert np.array_equal(found.least(whole), expected.least(whole))
    assert np.array_equal(found.greatest(real), expected.greatest(real))
    assert sorted(found.rows().tolist()) == list(range(ROWS))


@pytest.mark.parametrize("hash_", [2**63 + 17, 0, 1, 2**64 - 1, 1 << 48])
def test_a_key_that_the_sample_does_not_show(hash_: int) -> None:
    """Also where the hash alone tells keys apart, so that none are compared."""
    hashes, starts, key = columns(1, 5, 2)
    hashes[1], key[1] = np.uint64(hash_), 99
    found, expected = group(hashes, starts, 10, []), group_by_pane(hashes, starts, 10, [key])
    assert isinstance(found, Tallies)
    assert np.array_equal(hashes[found.first_rows], hashes[expected.first_rows])
    assert np.array_equal(found.sizes, expected.sizes)


@pytest.mark.parametrize(("keys", "panes"), [(2000, 1), (300, 4), (2, 2000)])
def test_many_groups_are_sorted(keys: int, panes: int) -> None:
    hashes, starts, key = columns(2, keys, panes)
    assert not isinstance(group(hashes, starts, 10, [key]), Tallies)


def test_hashes_with_one_prefix_and_keys_with_one_hash_are_told_apart() -> None:
    _, starts, key = columns(3, 6, 2)
    for hashes in (key, key // np.uint64(2)):
        found, expected = group(hashes, starts, 10, [key]), group_by_pane(hashes, starts, 10, [key])
        assert not isinstance(found, Tallies)
        assert np.array_equal(found.sizes, expected.sizes)


def test_few_rows_are_not_worth_a_table() -> None:
    hashes, starts, key = (column[: aggregate_tallies._LEAST_ROWS - 1] for column in columns(4, 3, 2))
    assert not isinstance(group(hashes, starts, 10, [key]), Tallies)
