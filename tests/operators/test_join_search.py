"""The search for candidates against a plain loop."""

from __future__ import annotations

from random import Random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.operators.band_join import probes as join_search
from penstock.operators.band_join.probes import Probes, candidates, first_at_or_above, probes
from penstock.operators.band_join.state_rows import StateRows, as_state_rows
from penstock.progress.mark import MAX_TIME, MIN_TIME, saturate

HASHES = st.sampled_from([0, 1, 2, 2**63, 2**64 - 1])
TIMES = st.sampled_from([MIN_TIME, MIN_TIME + 1, -3, 0, 1, 2, 5, MAX_TIME - 1, MAX_TIME])
SPANS = st.sampled_from([None, 0, 1, -1, 5, -(2**63), 2**63 - 1, 2**63, 2**64, -(2**64), 2**64 + 3])


def piece(rows: list[tuple[int, int]]) -> StateRows:
    rows = sorted(rows)
    columns = [pa.array([r[0] for r in rows], pa.uint64()), pa.array([r[1] for r in rows], pa.int64())]
    return as_state_rows(pa.RecordBatch.from_arrays(columns, ["#hash", "#time"]))


def found(state: StateRows, wanted: Probes) -> list[tuple[int, int]]:
    return [
        pair for block in candidates(state, wanted).pairs() for pair in zip(*map(np.ndarray.tolist, block), strict=True)
    ]


@settings(deadline=None)
@given(st.lists(st.tuples(HASHES, TIMES), max_size=40), st.lists(st.tuples(HASHES, TIMES), max_size=20), SPANS, SPANS)
def test_candidates(
    stored: list[tuple[int, int]], fresh: list[tuple[int, int]], before: int | None, after: int | None
) -> None:
    state, seekers = piece(stored), piece(fresh)
    low, high = -(2**70) if before is None else -before, 2**70 if after is None else after
    wanted = [
        (n, row)
        for n, (hash_, time) in enumerate(sorted(fresh))
        for row, (other, at) in enumerate(sorted(stored))
        if other == hash_ and time + low <= at <= time + high
    ]
    assert found(state, probes(seekers.hashes, [(seekers.times, before, after)])) == wanted


@settings(deadline=None)
@given(st.lists(TIMES, max_size=5), st.integers(-(2**65), 2**65))
def test_shifted_times_stop_at_the_limits(times: list[int], by: int) -> None:
    from penstock.operators.band_join.probes import _shifted

    assert _shifted(np.array(times, dtype=np.int64), by).tolist() == [saturate(time + by) for time in times]


@pytest.mark.parametrize("size", [1, 2, 3, 64])
def test_blocks_hold_at_most_so_many_pairs_and_all_of_them_in_order(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """One row with very many partners is cut as well."""
    monkeypatch.setattr(join_search, "_PAIRS", size)
    state, seekers = piece([(1, n) for n in range(50)]), piece([(1, 10), (1, 25), (1, 49)])
    ranges = candidates(state, probes(seekers.hashes, [(seekers.times, 100, 0)]))
    blocks = list(ranges.pairs())
    assert max(len(rows) for _, rows in blocks) <= size
    wanted = [(n, row) for n, last in enumerate([10, 25, 49]) for row in range(last + 1)]
    assert found(state, probes(seekers.hashes, [(seekers.times, 100, 0)])) == wanted


def test_many_probes_in_a_large_state() -> None:
    """Several blocks of probes, groups of very different size, hashes that fall on the borders of blocks."""
    random = np.random.default_rng(3)
    hashes = np.sort(random.choice([*range(0, 60_000, 2), *[4_000] * 40_000], 60_000)).astype(np.uint64)
    times = random.integers(0, 100, len(hashes))
    order = np.lexsort((times, hashes))
    state = as_state_rows(
        pa.RecordBatch.from_arrays([pa.array(hashes[order]), pa.array(times[order])], ["#hash", "#time"])
    )
    wanted = np.sort(np.append(random.integers(0, 60_000, 30_000), [4_000] * 50)).astype(np.uint64)
    at = random.integers(0, 100, len(wanted))
    ranges = candidates(state, probes(wanted, [(at, 3, 2)]))
    counts = np.zeros(len(wanted), dtype=np.int64)
    counts[ranges.positions] = ranges.end - ranges.first
    table = np.zeros((60_001, 100), dtype=np.int64)
    np.add.at(table, (hashes.astype(np.int64), times), 1)
    sums = np.cumsum(np.pad(table, ((0, 0), (1, 0))), axis=1)
    rows = wanted.astype(np.int64)
    assert (counts == sums[rows, np.minimum(at + 3, 100)] - sums[rows, np.maximum(at - 3, 0)]).all()


@pytest.mark.parametrize("count", [0, 1, 63, 64, 65, 127, 128, 1000, 4096])
@pytest.mark.parametrize("different", [1, 5, 2**64 - 1])
def test_a_sampled_search_finds_what_a_plain_one_does(count: int, different: int, random: Random) -> None:
    values = [random.randint(0, different) for _ in range(count)]
    hashes = np.sort(np.array(values, dtype=np.uint64))
    asked = [0, 2**64 - 1, different // 2, *values[:2]] + [random.randint(0, different) for _ in range(20)]
    for number in (1, len(asked)):  # a few of them are searched for by a sample, many at once
        wanted = np.sort(np.array(asked[:number], dtype=np.uint64))
        assert first_at_or_above(hashes, wanted).tolist() == np.searchsorted(hashes, wanted).tolist()
