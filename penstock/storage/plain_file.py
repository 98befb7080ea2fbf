"""Opening what must be a plain file: no link is followed, no pipe is waited for, no device is read."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path


class NotPlain(OSError):
    """Something else lies where a plain file belongs, or the file is larger than it can be."""


def open_plain(path: Path, flags: int = os.O_RDONLY) -> int:
    """Open a plain file and return its descriptor. Without O_NONBLOCK opening a pipe would wait for its other end."""
    try:
        descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise NotPlain("it is a symbolic link") from error
        if error.errno in (errno.EISDIR, errno.ENXIO):
            raise NotPlain(f"it is not a plain file but {_kind(os.lstat(path).st_mode)}") from error
        raise
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        raise NotPlain(f"it is not a plain file but {_kind(mode)}")
    return descriptor


def read_plain(path: Path, most: int) -> bytes:
    """Read a plain file of at most so many bytes."""
    with os.fdopen(open_plain(path), "rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size > most:
            raise NotPlain(f"it has {size:,} bytes, and there can be {most:,} at most")
        return file.read(most)


def reason(error: OSError) -> str:
    """Say what is wrong without repeating the path, which the message names anyway."""
    return error.strerror or str(error)


def _kind(mode: int) -> str:
    kinds = {stat.S_IFDIR: "a folder", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}
    return kinds.get(stat.S_IFMT(mode), "a device")
