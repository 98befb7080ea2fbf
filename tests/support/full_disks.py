"""A disk that can be full or read-only: a small file system of its own where the machine allows it, or else calls that
fail as those of a full disk do."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from unittest import mock

SIZE = 1 << 20
_FILLER = "filler"


class MountedDisk:
    """A file system in memory, mounted at a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def fill(self, leave: int = 0) -> None:
        """Leave so many bytes."""
        filler = self.folder / _FILLER
        with filler.open("ab", buffering=0) as file, suppress(OSError):
            while True:
                file.write(bytes(4096))
        os.truncate(filler, filler.stat().st_size - leave)

    def make_room(self) -> None:
        (self.folder / _FILLER).unlink(missing_ok=True)

    def protect(self) -> None:
        """Let nobody write."""
        assert _mount("-o", "remount,ro", str(self.folder)), "a file on it is open for writing"

    def unprotect(self) -> None:
        assert _mount("-o", "remount,rw", str(self.folder))


class FaultingDisk:
    """A folder in which no file can be made while it is full or protected. The calls of this process fail, those of the
    kernel do not."""

    def __init__(self, folder: Path) -> None:
        self.folder, self._error = folder, 0

    def fill(self, leave: int = 0) -> None:
        self._error = errno.ENOSPC

    def protect(self) -> None:
        self._error = errno.EROFS

    def make_room(self) -> None:
        self._error = 0

    unprotect = make_room

    def opening(self, really: Callable[..., int]) -> Callable[..., int]:
        """`os.open` as this disk lets it."""

        def opened(path: Any, flags: int, *rest: Any, **more: Any) -> int:
            inside = isinstance(path, str | Path) and Path(path).is_relative_to(self.folder)
            if self._error and inside and flags & os.O_CREAT:
                raise OSError(self._error, os.strerror(self._error), str(path))
            return really(path, flags, *rest, **more)

        return opened


Disk = MountedDisk | FaultingDisk


@contextmanager
def small_disk(folder: Path, mounted: bool = True, files: int = 0) -> Iterator[Disk]:
    """A disk at a folder, which is made. Where nothing can be mounted it is a faulting one. A mounted disk holds at
    most so many files and folders (0: enough)."""
    folder.mkdir(parents=True)
    if mounted and _mount("-t", "tmpfs", "-o", f"size={SIZE},nr_inodes={files or SIZE}", "none", str(folder)):
        try:
            yield MountedDisk(folder)
        finally:
            subprocess.run(["umount", "-l", str(folder)], check=True, capture_output=True)
        return
    disk = FaultingDisk(folder)
    with mock.patch.object(os, "open", disk.opening(os.open)):
        yield disk


def _mount(*arguments: str) -> bool:
    """Whether it could be done: only who may mount can."""
    with suppress(OSError):
        return subprocess.run(["mount", *arguments], check=False, capture_output=True).returncode == 0
    return False
