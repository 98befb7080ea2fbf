"""The verdict of a soak: what may grow, and what may not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from penstock_bench.soak import Sample, judge, soak

STEADY = [Sample(epoch, 1_000, 20 + epoch % 5, 0, 300) for epoch in range(1, 501)]


def test_a_steady_run_holds() -> None:
    verdict = judge(STEADY)
    assert verdict.holds
    assert (verdict.memory_growth, verdict.checkpoint_files) == (1.0, (24, 24))


def test_what_happens_during_the_warm_up_does_not_count() -> None:
    assert judge([replace(s, memory=1, handles=9_999) if s.epoch <= 100 else s for s in STEADY]).holds


def test_memory_may_not_grow_by_five_percent() -> None:
    assert judge([replace(s, memory=1_000 + s.epoch // 20) for s in STEADY]).holds
    assert not judge([replace(s, memory=1_000 + s.epoch // 5) for s in STEADY]).holds


def test_one_file_handle_or_shuffle_file_more_than_before_is_seen() -> None:
    for name in ("checkpoint_files", "handles", "shuffle_files"):
        grown = [replace(s, **{name: getattr(s, name) + 10}) if s.epoch == 400 else s for s in STEADY]
        assert not judge(grown).holds


def test_a_sample_is_taken_after_every_epoch(tmp_path: Path) -> None:
    told: list[Sample] = []
    samples = soak(5, tmp_path, "inline", told.append)
    assert [s.epoch for s in samples] == [1, 2, 3, 4, 5]
    assert told == samples
    assert all(s.memory > 0 and s.checkpoint_files > 0 and s.handles > 0 for s in samples)
