"""Files are whole or absent, private, and synced before anything depends on them."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pytest

from penstock.storage.durable import create_exclusive, make_private_folder, write_new


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was synced, in order."""
    paths: list[str] = []
    fsync = os.fsync

    def recording(descriptor: int) -> None:
        paths.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", recording)
    return paths


def test_a_new_file_is_whole_private_and_synced(tmp_path: Path, synced: list[str]) -> None:
    write_new(tmp_path / "file", b"content")
    assert (tmp_path / "file").read_bytes() == b"content"
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o600
    assert synced == [str(tmp_path / "file")]


def test_a_new_file_never_replaces_one(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("old")
    with pytest.raises(FileExistsError):
        write_new(tmp_path / "file", b"new")
    assert (tmp_path / "file").read_text() == "old"


def test_exclusive_creation_syncs_the_content_and_then_the_name(tmp_path: Path, synced: list[str]) -> None:
    assert create_exclusive(tmp_path / "file", b"content")
    assert len(synced) == 2
    assert os.path.dirname(synced[0]) == str(tmp_path)
    assert synced[1] == str(tmp_path)


def test_exclusive_creation_leaves_what_is_there(tmp_path: Path) -> None:
    assert create_exclusive(tmp_path / "file", b"first")
    assert not create_exclusive(tmp_path / "file", b"second")
    assert (tmp_path / "file").read_bytes() == b"first"
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


def test_of_many_creators_one_wins(tmp_path: Path) -> None:
    won: list[int] = []
    start = threading.Barrier(8)

    def create(number: int) -> None:
        start.wait()
        if create_exclusive(tmp_path / "file", str(number).encode() * 1000):
            won.append(number)

    threads = [threading.Thread(target=create, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (tmp_path / "file").read_bytes() == str(won[0]).encode() * 1000
    assert len(won) == 1


def test_folders_are_private_and_existing_ones_stay(tmp_path: Path) -> None:
    make_private_folder(tmp_path / "new")
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o700
    (tmp_path / "open").mkdir(mode=0o755)
    make_private_folder(tmp_path / "open")
    assert stat.S_IMODE((tmp_path / "open").stat().st_mode) == 0o755
