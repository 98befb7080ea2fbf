"""Parcels: blobs handed from one worker to another on the same host, in memory that both can see.

A worker that makes parcels tells others where they lie; they map what they need and copy nothing. Members of a crew lay
them into an anonymous file in memory, and nobody has to clean up: it is free when its worker has closed it and the last
reader has let go of the rows, also where that is because they died. Tasks of a job outlive their workers, so what they
hand over lies in files of a folder, which goes when the epoch is over: on one host, only parcels go through Spark, each
with the partition it goes to: rows would pass through the JVM several times.
"""

from __future__ import annotations

import mmap
import os
import sys
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from penstock.engine.task.level import partition_of
from penstock.engine.wire.blob import Blob, decode
from penstock.engine.wire.job import CONTROL, EpochJob, Message, TaskFailure
from penstock.errors import StorageError
from penstock.storage.disk_errors import writing

_LEAST_BYTES = 1 << 16  # of a blob that is handed over as a parcel by tasks of a job


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


Addressed = tuple[int, Message | Parcel]


def addressed(job: EpochJob, folder: str | None, messages: Iterable[Message | Parcel]) -> Iterator[Addressed]:
    """Yield the messages with their partitions; large blobs as references to files in `folder`, if given. If a file
    cannot be written, yield a failure message and stop: a retry would only repeat the error."""
    for message in messages:
        try:
            packed = _packed(folder, message)
        except StorageError as error:
            yield 0, Message(CONTROL, 0, TaskFailure("parcel", error))
            return
        yield partition_of(message.site, job.width), packed


def _packed(folder: str | None, message: Message | Parcel) -> Message | Parcel:
    """Return a message, with a large blob written to a file and replaced by its reference."""
    match message:
        case Message(subquery, site, Blob(_, rows) as blob) if (
            folder and rows is not None and rows.nbytes > _LEAST_BYTES
        ):
            return parcel_in(folder, subquery, site, blob)
    return message


def opened(level: int, inbox: Iterable[Addressed], passing: list[Parcel]) -> Iterator[Message]:
    """Yield the messages of an inbox. References to blobs for later levels are not opened but appended to `passing`."""
    for _, message in inbox:
        match message:
            case Message():
                yield message
            case Parcel(subquery, site) if subquery == level:
                yield Message(subquery, site, message.open())
            case _:
                passing.append(message)
