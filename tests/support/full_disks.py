"""A disk that can be full or read-only: a small mounted file system if the machine allows it, else calls that fail like
those of a full disk."""

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
        """Fill the disk except for `leave` bytes."""
        filler = self.folder / _FILLER
        with filler.open("ab", buffering=0) as file, suppress(OSError):
            while True:
                file.write(bytes(4096))
        os.truncate(filler, filler.stat().st_size - leave)

    def make_room(self) -> None:
        """Free the space again."""
        (self.folder / _FILLER).unlink(missing_ok=True)

    def protect(self) -> None:
        """Make the disk read-only."""
        assert _mount("-o", "remount,ro", str(self.folder)), "a file on it is open for writing"

    def unprotect(self) -> None:
        assert _mount("-o", "remount,rw", str(self.folder))


class FaultingDisk:
    """A folder in which no file can be created while it is full or protected. Only Python calls of this process
    fail."""

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
        """Wrap `os.open` so that it fails as this disk requires."""

        def opened(path: Any, flags: int, *rest: Any, **more: Any) -> int:
            inside = isinstance(path, str | Path) and Path(path).is_relative_to(self.folder)
            if self._error and inside and flags & os.O_CREAT:
                raise OSError(self._error, os.strerror(self._error), str(path))
            return really(path, flags, *rest, **more)

        return opened


Disk = MountedDisk | FaultingDisk


@contextmanager
def small_disk(folder: Path, mounted: bool = True, files: int = 0) -> Iterator[Disk]:
    """Create a folder with a disk: a mounted one, or a faulting one if nothing can be mounted. A mounted disk holds at
    most `files` files and folders (0: enough)."""
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
    """Run `mount` and return whether it succeeded; it needs privileges."""
    with suppress(OSError):
        return subprocess.run(["mount", *arguments], check=False, capture_output=True).returncode == 0
    return False
