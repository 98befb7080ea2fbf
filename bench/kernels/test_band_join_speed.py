"""The band join's kernel under pytest-benchmark: pytest bench/kernels/test_band_join_speed.py

Not part of the test suite. 100 million rows of state take about 8 GB of memory while they are built.
"""

from __future__ import annotations

import pytest
from band_join_speed import PROBES, arriving, epoch, matches, portion


@pytest.mark.parametrize("runs", [1, 8])
@pytest.mark.parametrize("rows_of_state", [1_000_000, 10_000_000, 100_000_000])
def test_probes_of_a_large_state(benchmark, rows_of_state: int, runs: int) -> None:  # type: ignore[no-untyped-def]
    work = portion(rows_of_state, runs)
    found = benchmark.pedantic(matches, (work,), rounds=5, warmup_rounds=1)
    benchmark.extra_info["probes per second"] = PROBES / benchmark.stats.stats.min
    assert PROBES < found < 3 * PROBES


@pytest.mark.parametrize("rows_of_state", [1_000_000, 10_000_000, 100_000_000])
def test_an_epoch_over_a_large_state(benchmark, rows_of_state: int) -> None:  # type: ignore[no-untyped-def]
    work, rows = portion(rows_of_state), arriving(rows_of_state)
    assert benchmark.pedantic(epoch, (rows, work), rounds=5, warmup_rounds=1) > PROBES


def test_one_key_has_everything(benchmark) -> None:  # type: ignore[no-untyped-def]
    """Memory stays bounded, for results come in blocks."""
    work = portion(20_000, probes=2_000, rows_per_key=20_000)
    assert benchmark.pedantic(matches, (work,), rounds=3) > 15_000_000
