"""One driver per checkpoint: an advisory lock that dies with its holder, also when the holder is killed."""

from __future__ import annotations

import fcntl
import os
import socket
import time
from pathlib import Path

from penstock.errors import CheckpointError
from penstock.storage.disk_errors import writing
from penstock.storage.plain_file import NotPlain, open_plain, reason

FILE = "lock"
_LOOKS, _BETWEEN = 5, 0.02  # somebody who looks whether a run holds it may be in the way for a moment


def in_use(checkpoint: Path) -> bool:
    """Whether a run holds the checkpoint. Where one does, looking neither holds nor changes anything."""
    try:
        descriptor = open_plain(checkpoint / FILE)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


class Lock:
    """Held from `acquire` until `release` or the death of the process."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor: int | None = None

    def acquire(self) -> None:
        """Take the lock. Nothing is written before it is held, and only to a plain file: never through a link."""
        try:
            descriptor = open_plain(self._path, os.O_RDWR | os.O_CREAT)
        except NotPlain as error:
            raise _not_a_lock(self._path, reason(error)) from error
        if not _taken(descriptor):
            holder = os.pread(descriptor, 200, 0).decode(errors="replace").strip()
            os.close(descriptor)
            raise CheckpointError(
                "this checkpoint is in use by another run",
                detail=f"{self._path.parent} is held by {holder or 'another process'}",
                hint="stop that run first, or give this one a checkpoint of its own",
            )
        self._descriptor = descriptor
        self._sign(descriptor, f"process {os.getpid()} on {socket.gethostname()}\n".encode())

    def _sign(self, descriptor: int, holder: bytes) -> None:
        """Say who holds it. Where there is no room for that, nobody does."""
        try:
            with writing(self._path, len(holder)):
                os.ftruncate(descriptor, 0)
                os.pwrite(descriptor, holder, 0)
        except BaseException:
            self.release()
            raise

    @property
    def held(self) -> bool:
        """Whether the lock is still the one that others find: somebody may have removed or replaced its file."""
        if self._descriptor is None:
            return False
        try:
            return os.path.samestat(os.fstat(self._descriptor), os.lstat(self._path))
        except OSError:
            return False

    def release(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def _not_a_lock(path: Path, why: str) -> CheckpointError:
    return CheckpointError(
        "the lock of this checkpoint cannot be used",
        detail=f"{path}: {why}",
        hint="remove it, if no run uses the checkpoint; the next run makes another",
    )


def _taken(descriptor: int) -> bool:
    for look in range(_LOOKS):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if look + 1 < _LOOKS:
                time.sleep(_BETWEEN)
        else:
            return True
    return False
