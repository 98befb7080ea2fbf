"""One driver per checkpoint: an advisory lock that dies with its holder, also when the holder is killed."""

from __future__ import annotations

import fcntl
import os
import socket
from pathlib import Path

from penstock.errors import CheckpointError


class Lock:
    """Held from `acquire` until `release` or the death of the process."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor: int | None = None

    def acquire(self) -> None:
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(descriptor, 200, 0).decode(errors="replace").strip()
            os.close(descriptor)
            raise CheckpointError(
                "this checkpoint is in use by another run",
                detail=f"{self._path.parent} is held by {holder or 'another process'}",
                hint="stop that run first, or give this one a checkpoint of its own",
            ) from None
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"process {os.getpid()} on {socket.gethostname()}\n".encode(), 0)
        self._descriptor = descriptor

    def release(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
