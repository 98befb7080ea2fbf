"""One driver per checkpoint: an advisory lock that dies with its holder, also when the holder is killed."""

from __future__ import annotations

import fcntl
import os
import socket
import time
from pathlib import Path

from penstock.errors import CheckpointError

FILE = "lock"
_LOOKS, _BETWEEN = 5, 0.02  # somebody who looks whether a run holds it may be in the way for a moment


def in_use(checkpoint: Path) -> bool:
    """Whether a run holds the checkpoint. Where one does, looking neither holds nor changes anything."""
    try:
        descriptor = os.open(checkpoint / FILE, os.O_RDONLY | os.O_NOFOLLOW)
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
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        if not _taken(descriptor):
            holder = os.pread(descriptor, 200, 0).decode(errors="replace").strip()
            os.close(descriptor)
            raise CheckpointError(
                "this checkpoint is in use by another run",
                detail=f"{self._path.parent} is held by {holder or 'another process'}",
                hint="stop that run first, or give this one a checkpoint of its own",
            )
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"process {os.getpid()} on {socket.gethostname()}\n".encode(), 0)
        self._descriptor = descriptor

    def release(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


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
