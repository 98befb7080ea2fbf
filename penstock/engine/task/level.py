"""What a task of an epoch does: route one split, or take the messages of its partition, run its site, and pass on the
rest.

An epoch is one job with one shuffle per level: blobs for later levels and reports travel in band to the end of it, so
that only what winning attempts sent counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from penstock.engine.task.route import route
from penstock.engine.task.site.step import site_step
from penstock.engine.wire.blob import Blob
from penstock.engine.wire.job import (
    CONTROL,
    EpochJob,
    Message,
    RouteTask,
    TaskFailure,
    route_producer,
    site_producer,
)
from penstock.errors import PenstockError


def run_route(job: EpochJob, task: RouteTask) -> Iterator[Message]:
    return _guarded(route_producer(task.ordinal), route(job, task))


def run_level(job: EpochJob, level: int, partition: int, messages: Iterable[Message]) -> Iterator[Message]:
    blobs: list[Blob] = []
    for message in messages:
        if message.subquery == level and isinstance(message.content, Blob):
            blobs.append(message.content)
        else:
            yield message
    if partition < job.directories[level].sites:
        yield from _guarded(site_producer(level, partition), site_step(job, level, partition, blobs))


def partition_of(site: int, width: int) -> int:
    return site % width


def _guarded(producer: str, messages: Iterator[Message]) -> Iterator[Message]:
    """An error of ours is an answer, not a crash: trying again would only repeat it."""
    try:
        yield from messages
    except PenstockError as error:
        yield Message(CONTROL, 0, TaskFailure(producer, error))
