"""Staged files whose size and checksum are computed while writing and compared before publishing.

The checksum covers the bytes passed to the file system, not those read back, so any later damage is detected.
"""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

import xxhash

from penstock.state.model import Staged
from penstock.storage.disk_errors import writing
from penstock.storage.plain_file import open_plain, reason
from penstock.storage.run_files import write_all

_PIECE = 1 << 20  # bytes read at a time: large enough for full speed


class HashedFile(io.RawIOBase):
    """A new file that counts and hashes the bytes written to it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        self._hash, self.size = xxhash.xxh3_64(), 0

    @property
    def checksum(self) -> str:
        return self._hash.hexdigest()

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        """Append the bytes; return their number."""
        view = memoryview(data)
        self._hash.update(view)
        with writing(self._path, view.nbytes):
            write_all(self._descriptor, view)
        self.size += view.nbytes
        return view.nbytes

    def tell(self) -> int:
        return self.size

    def close(self) -> None:
        if not self.closed:
            os.close(self._descriptor)
        super().close()


def what_is_wrong(path: Path, file: Staged) -> str:
    """Compare a staged file with its entry in the manifest; return the difference, or "" if it is intact."""
    try:
        size, checksum = _content(path, file.size)
    except OSError as error:
        return reason(error)
    if size != file.size:
        return f"it has {size:,} bytes, but the manifest says {file.size:,}"
    if checksum != file.checksum:
        return f"its checksum is {checksum}, but the manifest says {file.checksum}"
    return ""


def _content(path: Path, expected: int) -> tuple[int, str]:
    """Return the size and the checksum of a file; it is not read if the size differs from `expected`."""
    with os.fdopen(open_plain(path), "rb", buffering=0) as opened:
        size = os.fstat(opened.fileno()).st_size
        found, piece = xxhash.xxh3_64(), memoryview(bytearray(min(_PIECE, max(size, 1))))
        while size == expected and (read := opened.readinto(piece)):
            found.update(piece[:read])
        return size, found.hexdigest()
