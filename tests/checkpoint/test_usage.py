"""What the files of a checkpoint take on disk."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from penstock.checkpoint.store import Checkpoint
from penstock.checkpoint.usage import DiskUsage
from penstock.storage.durable import staged_name


def _name(epoch: int, token: str = "t") -> str:
    return staged_name(epoch, "q0-s0", token, "arrow")


def test_files_are_counted_when_they_come_and_no_longer_when_they_go(tmp_path: Path) -> None:
    usage, runs = DiskUsage(), tmp_path / "runs"
    folders = (runs, tmp_path / "absent")
    assert usage.measure(folders, 0) == 0
    (runs / "folder").mkdir(parents=True)
    (runs / _name(1)).write_bytes(bytes(100))
    (runs / _name(2)).write_bytes(bytes(20))
    assert usage.measure(folders, 2) == 120
    (runs / _name(1)).unlink()
    (runs / _name(3)).write_bytes(bytes(3))
    assert usage.measure(folders, 3) == 23


def test_a_file_that_may_still_grow_is_looked_at_again(tmp_path: Path) -> None:
    usage, ahead = DiskUsage(), tmp_path / _name(3)
    ahead.write_bytes(bytes(10))
    assert usage.measure([tmp_path], 2) == 10
    ahead.write_bytes(bytes(50))
    assert usage.measure([tmp_path], 3) == 50


def test_a_file_is_looked_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage, looked = DiskUsage(), list[object]()
    for epoch in range(5):
        (tmp_path / _name(epoch)).write_bytes(bytes(10))
    usage.measure([tmp_path], 4)
    (tmp_path / _name(5)).write_bytes(bytes(10))
    really = os.lstat
    monkeypatch.setattr(os, "lstat", lambda path: (looked.append(path), really(path))[1])
    assert usage.measure([tmp_path], 5) == 60
    assert looked == [str(tmp_path / _name(5))]


def test_an_epoch_that_is_discarded_leaves_neither_state_nor_staged_rows(tmp_path: Path) -> None:
    checkpoint, staging = Checkpoint.open(tmp_path / "ck"), tmp_path / "staging"
    staging.mkdir()
    for folder in (checkpoint.runs, staging):
        for epoch in (1, 2):
            (folder / _name(epoch)).write_bytes(bytes(10))
    assert checkpoint.disk_bytes([staging], 2) == 40
    checkpoint.discard(2, [staging])
    assert checkpoint.disk_bytes([staging], 2) == 20
    assert os.listdir(staging) == [_name(1)]
    checkpoint.close()
