"""Parcels: blobs handed from one worker to another on the same host, in memory that both can see.

An arena is an anonymous file in memory. The worker that fills it tells others where to look; they map what they need
and copy nothing. Nobody has to clean up: the memory is free when its worker has closed the arena and the last reader
has let go of the rows, also where that is because they died.
"""

from __future__ import annotations

import mmap
import os
import sys
from dataclasses import dataclass

import pyarrow as pa

from penstock.engine.blob import Blob, decode


def available() -> bool:
    """Whether this system has files in memory that other processes of the same user can open."""
    return sys.platform == "linux" and hasattr(os, "memfd_create") and os.path.isdir("/proc/self/fd")


@dataclass(frozen=True)
class Parcel:
    """A blob on its way to a site of a subquery, and where it lies: in which file of which process."""

    subquery: int
    site: int
    process: int
    descriptor: int
    start: int
    length: int

    def open(self) -> Blob:
        descriptor = os.open(f"/proc/{self.process}/fd/{self.descriptor}", os.O_RDONLY)
        try:
            mapped = mmap.mmap(descriptor, self.length, access=mmap.ACCESS_READ, offset=self.start)
        finally:
            os.close(descriptor)
        return decode(pa.py_buffer(mapped))


class Arena:
    """The parcels that a worker has made in one epoch. Invariant: what has been written is never changed or cut off,
    for a reader may have it mapped."""

    def __init__(self) -> None:
        self._descriptor = os.memfd_create("penstock")
        self._out = pa.PythonFile(os.fdopen(self._descriptor, "wb", buffering=0), "w")

    def pack(self, subquery: int, site: int, blob: Blob) -> Parcel:
        self._out.write(bytes(-self._out.tell() % mmap.ALLOCATIONGRANULARITY))  # only from there can it be mapped
        start = self._out.tell()
        blob.write_to(self._out)
        return Parcel(subquery, site, os.getpid(), self._descriptor, start, self._out.tell() - start)

    def close(self) -> None:
        self._out.close()
