"""What a file system refuses is said with the folder, the bytes and the user that it is about."""

from __future__ import annotations

import errno
import os
import pwd
from pathlib import Path
from types import SimpleNamespace

import pytest

from penstock.errors import DiskFullError, StorageError
from penstock.storage.disk_errors import explained
from penstock.storage.durable import writing


@pytest.fixture(autouse=True)
def disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Has 3,000 bytes left, of which the user may have 2,000."""
    monkeypatch.setattr(os, "statvfs", lambda path: SimpleNamespace(f_bfree=3, f_bavail=2, f_frsize=1000, f_files=0))


def _refused(number: int, path: Path | None = None, size: int = 0) -> StorageError:
    return explained(OSError(number, "the reason"), path, size)


@pytest.mark.parametrize(
    ("size", "detail"),
    [
        (5000, "it has 5,000 bytes, 2,000 bytes are free: 3,000 bytes are missing"),
        (2000, "it has 2,000 bytes, 2,000 bytes are free: some other process may have used the rest"),
        (0, "2,000 bytes are free"),
    ],
)
def test_a_full_disk_is_told_with_the_bytes_that_are_missing(size: int, detail: str, tmp_path: Path) -> None:
    error = _refused(errno.ENOSPC, tmp_path / "gone" / "file", size)
    assert isinstance(error, DiskFullError)
    assert error.what == f"there is no room left in {tmp_path}"
    assert error.detail == f"writing {tmp_path / 'gone' / 'file'}, {detail}"


def test_a_used_up_quota_says_nothing_of_the_disk_which_may_have_room(tmp_path: Path) -> None:
    error = _refused(errno.EDQUOT, tmp_path / "file", 5000)
    assert isinstance(error, DiskFullError)
    assert "the quota of the user" in error.what
    assert error.detail == f"writing {tmp_path / 'file'}, it has 5,000 bytes"


def test_a_path_is_named_once(tmp_path: Path) -> None:
    assert _refused(errno.EROFS, tmp_path).detail == f"{tmp_path}: the reason"
    assert explained(OSError(errno.EIO, f"{tmp_path} is broken"), tmp_path).detail == f"{tmp_path} is broken"
    assert "a folder of the query" in _refused(errno.EIO).what


def test_a_user_without_a_name_is_told_by_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody(user: int) -> None:
        raise KeyError(user)

    monkeypatch.setattr(pwd, "getpwuid", nobody)
    assert _refused(errno.EACCES, tmp_path).detail.endswith(f"the user is {os.geteuid()}")


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM])
def test_what_lasts_is_explained_where_it_is_written(number: int, tmp_path: Path) -> None:
    with pytest.raises(StorageError), writing(tmp_path / "file"):
        raise OSError(number, "the reason")


@pytest.mark.parametrize("number", [errno.EIO, errno.EEXIST, errno.EINTR])
def test_what_may_pass_by_itself_stays_as_it_is(number: int, tmp_path: Path) -> None:
    with pytest.raises(OSError, match="the reason") as caught, writing(tmp_path / "file"):
        raise OSError(number, "the reason")
    assert not isinstance(caught.value, StorageError)
