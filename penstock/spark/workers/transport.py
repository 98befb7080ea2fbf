"""References to blobs that one worker hands to another on the same host, in memory that both can see.

A worker sends others references to the blobs it makes; they map what they need and copy nothing. Workers of a pool
write blobs to an anonymous file in memory. No clean-up is needed: the kernel frees the file when its worker has closed
it and no reader maps it any more, also when one of them dies. Tasks of a Spark job outlive their workers, so their
blobs are files in a folder that is removed after the epoch. On one host only references go through Spark, each with its
partition: rows would pass through the JVM several times.
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
from penstock.engine.wire.job import TO_DRIVER, EpochJob, Message, TaskFailure, ToSite
from penstock.errors import StorageError
from penstock.storage.durable import writing

_LEAST_BYTES = 1 << 16  # smallest blob that the tasks of a job hand over by reference


def available() -> bool:
    """Return whether this system has in-memory files that other processes of the same user can open."""
    return sys.platform == "linux" and hasattr(os, "memfd_create") and os.path.isdir("/proc/self/fd")


@dataclass(frozen=True)
class BlobRef:
    """A reference to a blob for a site: the file, and the offset and length of the blob, in bytes."""

    to: ToSite
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


def write_blob_file(folder: str, to: ToSite, blob: Blob) -> BlobRef:
    """Write a blob to a new file of a folder and return its reference."""
    path = Path(folder) / uuid.uuid4().hex
    with writing(path), pa.OSFile(str(path), "wb") as out:
        blob.write_to(out)
        length = out.tell()
    return BlobRef(to, str(path), 0, length)


class BlobArena:
    """An in-memory file with the blobs that a worker has made in one epoch. Invariant: written bytes are never changed
    or truncated, because a reader may have mapped them."""

    def __init__(self) -> None:
        descriptor = os.memfd_create("penstock")
        self._path = f"/proc/{os.getpid()}/fd/{descriptor}"
        self._out = pa.PythonFile(os.fdopen(descriptor, "wb", buffering=0), "w")

    def pack(self, to: ToSite, blob: Blob) -> BlobRef:
        """Append a blob and return its reference."""
        self._out.write(bytes(-self._out.tell() % mmap.ALLOCATIONGRANULARITY))  # offsets of mmap must be aligned
        start = self._out.tell()
        blob.write_to(self._out)
        return BlobRef(to, self._path, start, self._out.tell() - start)

    def close(self) -> None:
        """Close the file; readers keep what they have mapped."""
        self._out.close()


Addressed = tuple[int, Message | BlobRef]


def addressed(job: EpochJob, folder: str | None, messages: Iterable[Message | BlobRef]) -> Iterator[Addressed]:
    """Yield the messages with their partitions; large blobs as references to files in `folder`, if given. If a file
    cannot be written, yield a failure message and stop: a retry would only repeat the error."""
    for message in messages:
        try:
            packed = _packed(folder, message)
        except StorageError as error:
            yield 0, Message(TO_DRIVER, TaskFailure("blob", error))
            return
        yield partition_of(message.to, job.width), packed


def _packed(folder: str | None, message: Message | BlobRef) -> Message | BlobRef:
    """Return a message, with a large blob written to a file and replaced by its reference."""
    match message:
        case Message(ToSite() as to, Blob(_, rows) as blob) if (
            folder and rows is not None and rows.nbytes > _LEAST_BYTES
        ):
            return write_blob_file(folder, to, blob)
    return message


def opened(level: int, inbox: Iterable[Addressed], passing: list[BlobRef]) -> Iterator[Message]:
    """Yield the messages of an inbox. References to blobs for later levels are not opened but appended to `passing`."""
    for _, message in inbox:
        match message:
            case Message():
                yield message
            case BlobRef(to) if to.subquery == level:
                yield Message(to, message.open())
            case _:
                passing.append(message)
