"""Outputs stay where they are, and nothing that is committed is left unpublished or handed over without need."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock as ps
from penstock.errors import CheckpointError, SinkError
from penstock.storage.faults import FaultPoint, InjectedCrash, arm, disarm

SECOND = 1_000_000


def query(*batches: list[int]) -> ps.Stream:
    tables = [pa.table({"ts": pa.array([s * SECOND for s in seconds], pa.timestamp("us"))}) for seconds in batches]
    return ps.read.batches(tables, time="ts").window(ps.tumbling("10s")).agg(n=ps.count())


def test_results_under_a_relative_path_do_not_move_with_the_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "here")
    query([1], [20]).to.files("out").start(str(tmp_path / "ck"), master="inline", until="1 epochs").wait()
    monkeypatch.chdir(tmp_path / "there")
    with pytest.raises(CheckpointError, match="go to another folder"):
        query([1], [20]).to.files("out").start(str(tmp_path / "ck"), master="inline")
    monkeypatch.chdir(tmp_path / "here")
    query([1], [20]).to.files("out").start(str(tmp_path / "ck"), master="inline").wait()
    assert pq.read_table("out").column("n").to_pylist() == [1, 1]


def test_a_folder_that_has_moved_behind_a_link_is_the_same_folder(tmp_path: Path) -> None:
    ready = query([1], [20]).to.files(str(tmp_path / "out"))
    ready.start(str(tmp_path / "ck"), master="inline", until="1 epochs").wait()
    (tmp_path / "out").rename(tmp_path / "larger disk")
    (tmp_path / "out").symlink_to(tmp_path / "larger disk")
    ready.start(str(tmp_path / "ck"), master="inline").wait()
    assert pq.read_table(tmp_path / "out").num_rows == 2


def test_after_a_refused_folder_another_can_be_chosen(tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    pq.write_table(pa.table({"x": [1]}), tmp_path / "taken" / "x.parquet")
    with pytest.raises(SinkError, match="already holds other results"):
        query([1]).to.files(str(tmp_path / "taken")).start(str(tmp_path / "ck"), master="inline")
    query([1]).to.files(str(tmp_path / "free")).start(str(tmp_path / "ck"), master="inline").wait()
    assert pq.read_table(tmp_path / "free").num_rows == 1


def test_late_rows_that_wait_to_be_published_hold_their_folder(tmp_path: Path) -> None:
    def start(late: str, **options: str) -> ps.Run:
        ready = query([50], [1]).to.files(str(tmp_path / "out"))
        return ready.start(str(tmp_path / "ck"), master="inline", epoch="1ms", late=str(tmp_path / late), **options)

    arm(FaultPoint.COMMITTED, nth=2)
    with pytest.raises(InjectedCrash):
        start("first").wait()
    disarm()
    with pytest.raises(CheckpointError, match="the late rows of this query go to another folder"):
        start("second")
    assert start("first").wait().late.num_rows == 1
    start("second").wait()  # nothing waits in the first folder any more


def test_a_clean_restart_hands_nothing_over_again(tmp_path: Path) -> None:
    seen: list[int] = []
    ready = query([1], [20], [40]).to.callback(lambda epoch, rows: seen.append(epoch))
    ready.start(str(tmp_path / "ck"), master="inline", epoch="1ms", until="2 epochs").wait()
    assert seen == [2]
    ready.start(str(tmp_path / "ck"), master="inline", epoch="1ms").wait()
    assert seen == [2, 3]


def test_a_crash_after_the_commit_hands_the_epoch_over_on_restart(tmp_path: Path) -> None:
    seen: list[int] = []
    ready = query([1], [20]).to.callback(lambda epoch, rows: seen.append(epoch))
    arm(FaultPoint.COMMITTED, nth=2)
    with pytest.raises(InjectedCrash):
        ready.start(str(tmp_path / "ck"), master="inline", epoch="1ms").wait()
    disarm()
    assert seen == []
    ready.start(str(tmp_path / "ck"), master="inline").wait()
    assert seen == [2]
