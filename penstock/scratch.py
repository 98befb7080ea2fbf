"""Scratch folders: private to their owner, and removed with the process that made them.

A process holds a lock on its folder while it lives. A folder whose lock is free was left by a process that was killed;
the next process of the same user removes it.
"""

from __future__ import annotations

import atexit
import fcntl
import os
import shutil
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

_PREFIX = "penstock-"
_NEW = ".penstock-new-"  # the name until the lock is held, so that a new folder is not taken for an abandoned one
_LOCK = ".owner"

_folders: dict[tuple[int, Path], Path] = {}  # by process and base; a forked process makes its own


def scratch_folder(name: str, base: str | Path | None = None) -> Path:
    """Create a new folder inside the scratch folder of this process, which is in `base` (default: the folder of
    temporary files)."""
    return Path(tempfile.mkdtemp(prefix=f"{name}-", dir=_own_folder(Path(base or tempfile.gettempdir()).absolute())))


def in_scratch(path: Path) -> bool:
    """Return whether a path is inside the scratch folder of any process."""
    return any(folder.name.startswith(_PREFIX) and (folder / _LOCK).is_file() for folder in path.parents)


def _own_folder(base: Path) -> Path:
    """Return the scratch folder of this process in `base`; creates it, and removes abandoned ones, at the first
    call."""
    key = os.getpid(), base
    if key not in _folders or not _folders[key].is_dir():
        base.mkdir(parents=True, exist_ok=True)
        remove_abandoned(base)
        _folders[key] = _make(base)
        atexit.register(_remove_own, os.getpid(), _folders[key])
    return _folders[key]


def _make(base: Path) -> Path:
    """Create a scratch folder whose lock this process holds."""
    new = Path(tempfile.mkdtemp(prefix=_NEW, dir=base))  # with mode 0700
    lock = os.open(new / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)  # stays open, and locked, while the process lives
    fcntl.flock(lock, fcntl.LOCK_EX)
    return new.rename(base / (_PREFIX + new.name.removeprefix(_NEW)))


def _remove_own(process: int, folder: Path) -> None:
    if process == os.getpid():
        shutil.rmtree(folder, ignore_errors=True)


def remove_abandoned(base: Path) -> None:
    """Remove the scratch folders in `base` that belong to this user and whose processes have ended."""
    with suppress(OSError), os.scandir(base) as entries:
        for entry in entries:
            if entry.name.startswith(_PREFIX) and _is_ours(entry):
                _remove_if_abandoned(Path(entry.path))


def _is_ours(entry: os.DirEntry[str]) -> bool:
    try:
        found = entry.stat(follow_symlinks=False)
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()


def _remove_if_abandoned(folder: Path) -> None:
    """Remove a folder whose lock is free. A folder without a lock file is not a scratch folder, whatever its name."""
    with suppress(OSError):
        lock = os.open(folder / _LOCK, os.O_RDWR | os.O_NOFOLLOW)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # fails while the owner lives
            shutil.rmtree(folder, ignore_errors=True)
        finally:
            os.close(lock)
