"""Opening regular files safely: no link is followed, no pipe is waited for, no device is read."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path


class NotPlain(OSError):
    """The path is not a regular file, or the file is larger than allowed."""


def open_plain(path: Path, flags: int = os.O_RDONLY) -> int:
    """Open a regular file and return its descriptor; raises NotPlain for anything else. O_NONBLOCK keeps the open of a
    pipe from waiting for its other end."""
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
    """Read a regular file of at most `most` bytes; raises NotPlain if it is larger."""
    with os.fdopen(open_plain(path), "rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size > most:
            raise NotPlain(f"it has {size:,} bytes, and there can be {most:,} at most")
        return file.read(most)


def reason(error: OSError) -> str:
    """Return what is wrong without the path, which the message names anyway."""
    return error.strerror or str(error)


def _kind(mode: int) -> str:
    kinds = {stat.S_IFDIR: "a folder", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}
    return kinds.get(stat.S_IFMT(mode), "a device")
