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
    """Whether this system has files in memory that other processes of the same user can open."""
    return sys.platform == "linux" and hasattr(os, "memfd_create") and os.path.isdir("/proc/self/fd")


@dataclass(frozen=True)
class Parcel:
    """A blob on its way to a site of a subquery, and where it lies."""

    subquery: int
    site: int
    path: str
    start: int
    length: int

    def open(self) -> Blob:
        descriptor = os.open(self.path, os.O_RDONLY)
        try:
            mapped = mmap.mmap(descriptor, self.length, access=mmap.ACCESS_READ, offset=self.start)
        finally:
            os.close(descriptor)
        return decode(pa.py_buffer(mapped))


def parcel_in(folder: str, subquery: int, site: int, blob: Blob) -> Parcel:
    """A parcel in a file of its own."""
    path = Path(folder) / uuid.uuid4().hex
    with writing(path), pa.OSFile(str(path), "wb") as out:
        blob.write_to(out)
        length = out.tell()
    return Parcel(subquery, site, str(path), 0, length)


class Arena:
    """The parcels that a member has made in one epoch. Invariant: what has been written is never changed or cut off,
    for a reader may have it mapped."""

    def __init__(self) -> None:
        descriptor = os.memfd_create("penstock")
        self._path = f"/proc/{os.getpid()}/fd/{descriptor}"
        self._out = pa.PythonFile(os.fdopen(descriptor, "wb", buffering=0), "w")

    def pack(self, subquery: int, site: int, blob: Blob) -> Parcel:
        self._out.write(bytes(-self._out.tell() % mmap.ALLOCATIONGRANULARITY))  # only from there can it be mapped
        start = self._out.tell()
        blob.write_to(self._out)
        return Parcel(subquery, site, self._path, start, self._out.tell() - start)

    def close(self) -> None:
        self._out.close()


Addressed = tuple[int, Message | Parcel]


def addressed(job: EpochJob, folder: str | None, messages: Iterable[Message | Parcel]) -> Iterator[Addressed]:
    """The messages with their partitions; large ones as parcels in `folder`, if there is one. A disk that takes no
    parcel is an answer, as for whoever made the messages: trying again would only repeat it."""
    for message in messages:
        try:
            packed = _packed(folder, message)
        except StorageError as error:
            yield 0, Message(CONTROL, 0, TaskFailure("parcel", error))
            return
        yield partition_of(message.site, job.width), packed


def _packed(folder: str | None, message: Message | Parcel) -> Message | Parcel:
    match message:
        case Message(subquery, site, Blob(_, rows) as blob) if (
            folder and rows is not None and rows.nbytes > _LEAST_BYTES
        ):
            return parcel_in(folder, subquery, site, blob)
    return message


def opened(level: int, inbox: Iterable[Addressed], passing: list[Parcel]) -> Iterator[Message]:
    """The messages of an inbox. Parcels for later levels are left as they are, and put into `passing`."""
    for _, message in inbox:
        match message:
            case Message():
                yield message
            case Parcel(subquery, site) if subquery == level:
                yield Message(subquery, site, message.open())
            case _:
                passing.append(message)
