"""Measure the disk space that a checkpoint takes."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from penstock.storage.durable import epoch_of_name


class DiskUsage:
    """The sizes of the files of a checkpoint. Invariant: `_sizes` has, by folder, files that no longer change.

    A measurement lists the folders, which garbage collection does, too, and looks only at files that are new: a file of
    an epoch whose tasks have ended never changes, and a name is never used twice.
    """

    def __init__(self) -> None:
        self._sizes: dict[Path, dict[str, int]] = {}

    def measure(self, folders: Iterable[Path], epoch: int) -> int:
        """Return the bytes of the files in some folders, without those in subfolders. No task writes files of `epoch`
        or of an earlier one any more."""
        return sum(self._of_folder(folder, epoch) for folder in folders)

    def _of_folder(self, folder: Path, epoch: int) -> int:
        known = self._sizes.get(folder, {})
        try:
            names = set(os.listdir(folder))
        except FileNotFoundError:
            names = set()
        new = {name: _size(folder, name) for name in names - known.keys()}
        lasting = {name: size for name, size in new.items() if (epoch_of_name(name) or 0) <= epoch}
        left = known if known.keys() <= names else {name: size for name, size in known.items() if name in names}
        self._sizes[folder] = left | lasting
        return sum(left.values()) + sum(new.values())


def _size(folder: Path, name: str) -> int:
    """Return the bytes of a file; 0 for a folder, and for a file that has just been removed."""
    with suppress(FileNotFoundError):
        found = os.lstat(os.path.join(folder, name))
        return found.st_size if stat.S_ISREG(found.st_mode) else 0
    return 0
