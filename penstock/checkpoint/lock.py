"""One driver per checkpoint: an advisory lock that the system releases when its holder ends or is killed."""

from __future__ import annotations

import fcntl
import logging
import os
import socket
import time
from pathlib import Path

from penstock.errors import CheckpointError
from penstock.storage.durable import NotPlain, open_plain, reason, writing

_log = logging.getLogger(__name__)

LOCK_FILE = "lock"
_LOOKS, _BETWEEN = 5, 0.02  # retries and seconds between them: `in_use` of another process holds the lock for a moment


def in_use(checkpoint: Path) -> bool:
    """Return whether a run holds the checkpoint. The test does not disturb that run."""
    try:
        descriptor = open_plain(checkpoint / LOCK_FILE)
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
    """An exclusive lock, held from `acquire` until `release` or the end of the process."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor: int | None = None

    def acquire(self) -> None:
        """Take the lock; raises CheckpointError if another run holds it. Nothing is written before it is held, and only
        to a regular file, never through a link."""
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
                hint="stop that run first, or use another checkpoint for this one",
            )
        self._descriptor = descriptor
        self._sign(descriptor, f"process {os.getpid()} on {socket.gethostname()}\n".encode())

    def _sign(self, descriptor: int, holder: bytes) -> None:
        """Write who holds the lock. If that fails, the lock is released."""
        try:
            with writing(self._path, len(holder)):
                os.ftruncate(descriptor, 0)
                os.pwrite(descriptor, holder, 0)
        except BaseException:
            self.release()
            raise

    @property
    def held(self) -> bool:
        """Return whether the lock is held and its file is still the one at the path: it may have been removed
        or replaced."""
        if self._descriptor is None:
            return False
        try:
            return os.path.samestat(os.fstat(self._descriptor), os.lstat(self._path))
        except OSError:
            return False

    def release(self) -> None:
        """Release the lock if it is held."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def _not_a_lock(path: Path, why: str) -> CheckpointError:
    return CheckpointError(
        "the lock of this checkpoint cannot be used",
        detail=f"{path}: {why}",
        hint="remove it, if no run uses the checkpoint; the next run creates another",
    )


def _taken(descriptor: int) -> bool:
    """Return whether the lock could be taken, after a few tries."""
    for look in range(_LOOKS):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _log.debug("the lock of the checkpoint is held, attempt %d of %d", look + 1, _LOOKS)
            if look + 1 < _LOOKS:
                time.sleep(_BETWEEN)
        else:
            return True
    return False
