"""Pass blobs between workers of one host, in memory that both can map.

The producer sends references; consumers map the blobs that they need, without a copy. Workers of a pool write blobs to
an anonymous file in memory. It needs no cleaning up: the kernel frees it when its worker has closed it and the last
reader has dropped the rows, even if they crash. Tasks of a Spark job can outlive their worker process, so their blobs
are in files of a folder that is removed after the epoch.
"""

from __future__ import annotations

import mmap
import os
import sys
import uuid
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from penstock.engine.wire.blob import Blob, decode
from penstock.storage.disk_errors import writing


def available() -> bool:
    """Return whether this system has in-memory files that other processes of the same user can open."""
    return sys.platform == "linux" and hasattr(os, "memfd_create") and os.path.isdir("/proc/self/fd")


@dataclass(frozen=True)
class Parcel:
    """A reference to a blob for a site of a subquery: the file, and the offset and length of the blob, in bytes."""

    subquery: int
    site: int
    path: str
    start: int
    length: int

    def open(self) -> Blob:
        """Map the blob into memory and return it, without a copy."""
        descriptor = os.open(self.path, os.O_RDONLY)
        try:
            mapped = mmap.mmap(descriptor, self.length, access=mmap.ACCESS_READ, offset=self.start)
        finally:
            os.close(descriptor)
        return decode(pa.py_buffer(mapped))


def parcel_in(folder: str, subquery: int, site: int, blob: Blob) -> Parcel:
    """Write a blob to a new file of a folder and return its reference."""
    path = Path(folder) / uuid.uuid4().hex
    with writing(path), pa.OSFile(str(path), "wb") as out:
        blob.write_to(out)
        length = out.tell()
    return Parcel(subquery, site, str(path), 0, length)


class Arena:
    """An in-memory file with the blobs that a worker has made in one epoch. Invariant: written bytes are never changed
    or truncated, because a reader may have mapped them."""

    def __init__(self) -> None:
        descriptor = os.memfd_create("penstock")
        self._path = f"/proc/{os.getpid()}/fd/{descriptor}"
        self._out = pa.PythonFile(os.fdopen(descriptor, "wb", buffering=0), "w")

    def pack(self, subquery: int, site: int, blob: Blob) -> Parcel:
        """Append a blob and return its reference."""
        self._out.write(bytes(-self._out.tell() % mmap.ALLOCATIONGRANULARITY))  # offsets of mmap must be aligned
        start = self._out.tell()
        blob.write_to(self._out)
        return Parcel(subquery, site, self._path, start, self._out.tell() - start)

    def close(self) -> None:
        """Close the file; readers keep what they have mapped."""
        self._out.close()
