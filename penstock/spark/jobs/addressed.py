"""Messages on their way through a job of Spark, each with the partition it goes to.

On one host large blobs lie in files, and only parcels go through Spark: rows would pass through the JVM several times.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from penstock.engine.task.level import partition_of
from penstock.engine.wire.blob import Blob
from penstock.engine.wire.job import CONTROL, EpochJob, Message, TaskFailure
from penstock.errors import StorageError
from penstock.spark.workers.transport import Parcel, parcel_in

Addressed = tuple[int, Message | Parcel]

_LEAST_BYTES = 1 << 16


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
