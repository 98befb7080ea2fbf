"""Grouping rows by hash, pane and key, also where the cheap ways of sorting do not hold."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.kernels import order as aggregate_order
from penstock.kernels import segments
from penstock.kernels.order import group_by_key, group_by_pane, order_by_hash_and_time

# Hashes that differ in their lowest bits only defeat every sort by prefix.
HASHES = [0, 1, 2, 3, 2**63, 2**63 + 1, 2**64 - 1]
PANES = [0, 10, -10, 2**62, -(2**62), 10 * ((2**63 - 8) // 10), -10 * ((2**63 - 8) // 10)]


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from(HASHES), st.sampled_from(PANES), st.integers(0, 2)), min_size=1, max_size=40))
def test_every_key_and_pane_is_one_range(rows: list[tuple[int, int, int]]) -> None:
    hashes = np.array([r[0] for r in rows], dtype=np.uint64)
    panes = np.array([r[1] for r in rows], dtype=np.int64)
    keys = np.array([r[2] for r in rows], dtype=np.uint64)
    groups = group_by_pane(hashes, panes, 2, [keys])
    order = np.arange(len(rows)) if groups.order is None else groups.order
    ranges = [[rows[i] for i in order[lo:hi]] for lo, hi in zip(groups.lo, groups.hi, strict=True)]
    assert [r for found in ranges for r in found] == [rows[i] for i in order]
    assert sorted(order.tolist()) == list(range(len(rows)))
    heads = [found[0] for found in ranges]
    assert all(len(set(found)) == 1 for found in ranges)
    assert len(set(heads)) == len(heads)
    assert [h[:2] for h in heads] == sorted(h[:2] for h in heads)


def test_rows_in_order_are_left_alone() -> None:
    hashes, panes = np.array([1, 1, 2], dtype=np.uint64), np.array([0, 10, -10])
    assert group_by_pane(hashes, panes, 10, [hashes]).order is None


@settings(deadline=None, max_examples=300)
@given(
    st.lists(st.tuples(st.integers(0, 2**64 - 1), st.integers(-(2**63), 2**63 - 1)), min_size=1, max_size=60),
    st.integers(0, 63),
    st.sampled_from([1, 2**40, 2**63]),
    st.sampled_from([0.0, 0.02, 1.0]),
)
def test_rows_are_sorted_by_hash_and_time(
    rows: list[tuple[int, int]], cleared: int, coarse: int, most_put_right: float
) -> None:
    hashes = np.array([h >> cleared << cleared for h, _ in rows], dtype=np.uint64)
    times = np.array([t // coarse * coarse for _, t in rows], dtype=np.int64)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(aggregate_order, "_MOST_PUT_RIGHT", most_put_right)
        order, ordered = order_by_hash_and_time(hashes, times)
    order = np.arange(len(rows)) if order is None else order
    expected = np.lexsort((times, hashes))
    assert sorted(order.tolist()) == list(range(len(rows)))
    assert np.array_equal(ordered, hashes[expected])
    assert np.array_equal(hashes[order], hashes[expected])
    assert np.array_equal(times[order], times[expected])


def test_colliding_keys_are_untangled() -> None:
    hashes = np.array([5, 5, 5, 5, 9], dtype=np.uint64)
    panes, keys = np.array([0, 0, 10, 10, 0]), np.array([1, 2, 1, 2, 1], dtype=np.uint64)
    order, heads = group_by_key(hashes, panes, [keys])
    assert order is not None
    assert keys[order].tolist() == [1, 1, 2, 2, 1]
    assert panes[order].tolist() == [0, 10, 0, 10, 0]
    assert heads.tolist() == [True, False, True, False, True]
    assert group_by_key(hashes, panes, [])[0] is None


@pytest.mark.parametrize("block", [1, 2, 3, 7])
def test_blocks_do_not_show(monkeypatch: pytest.MonkeyPatch, block: int) -> None:
    random = np.random.default_rng(5)
    hashes, keys = random.integers(0, 3, (2, 60), dtype=np.uint64)
    panes = random.integers(-2, 2, 60)
    whole = group_by_pane(hashes, panes, 1, [keys])
    monkeypatch.setattr(segments, "_IN_CACHE", block)
    cut = group_by_pane(hashes, panes, 1, [keys])
    assert np.array_equal(cut.lo, whole.lo)
    assert len(whole) == len(set(zip(hashes.tolist(), panes.tolist(), keys.tolist(), strict=True)))
