"""What must be a plain file is one: nothing else is opened, waited for or followed."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.checkpoint.lock import Lock, in_use
from penstock.errors import CheckpointError
from penstock.storage.durable import NotPlain, open_plain, read_plain

OTHERS: dict[str, Callable[[Path], None]] = {
    "a folder": Path.mkdir,
    "a pipe": os.mkfifo,
    "a symbolic link": lambda path: path.symlink_to("/dev/null"),
    "a symbolic link to a file": lambda path: path.symlink_to(__file__),
    "a symbolic link to nothing": lambda path: path.symlink_to(path.with_name("nothing")),
    "a symbolic link to itself": lambda path: path.symlink_to(path),
}


@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("flags", [os.O_RDONLY, os.O_RDWR | os.O_CREAT, os.O_WRONLY | os.O_CREAT])
def test_whatever_is_no_plain_file_is_refused_at_once(other: str, flags: int, tmp_path: Path) -> None:
    OTHERS[other](tmp_path / "it")
    with pytest.raises(NotPlain, match=other.partition(" to ")[0]):
        open_plain(tmp_path / "it", flags)
    assert not (tmp_path / "nothing").exists()


def test_a_device_is_refused() -> None:
    with pytest.raises(NotPlain, match="a device"):
        read_plain(Path("/dev/zero"), 10)


def test_what_is_refused_is_closed_again() -> None:
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        with pytest.raises(NotPlain):
            open_plain(Path("/dev/zero"))
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_file_is_read_up_to_its_bound(tmp_path: Path) -> None:
    (tmp_path / "it").write_bytes(b"12345")
    assert read_plain(tmp_path / "it", 5) == b"12345"
    with pytest.raises(NotPlain, match="5 bytes, and there can be 4 at most"):
        read_plain(tmp_path / "it", 4)


@pytest.mark.parametrize("other", OTHERS)
def test_a_lock_that_is_no_plain_file_is_refused_and_nothing_is_written(other: str, tmp_path: Path) -> None:
    OTHERS[other](tmp_path / "lock")
    before = Path(__file__).read_bytes()
    with pytest.raises(CheckpointError, match="the lock of this checkpoint cannot be used") as caught:
        Lock(tmp_path / "lock").acquire()
    assert caught.value.hint
    assert not in_use(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["lock"]
    assert Path(__file__).read_bytes() == before


def test_a_lock_knows_that_somebody_removed_it(tmp_path: Path) -> None:
    first, second = Lock(tmp_path / "lock"), Lock(tmp_path / "lock")
    first.acquire()
    assert first.held
    (tmp_path / "lock").unlink()
    assert not first.held
    second.acquire()
    assert second.held
    assert not first.held
    first.release()
    second.release()
