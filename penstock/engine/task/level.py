"""The tasks of an epoch: route one split, or take the messages of a partition, run its site, and forward the rest.

An epoch is one job with one shuffle per level. Blobs for later levels and reports are forwarded through all levels to
the end of the job, so that only messages of winning attempts count. Routing reads a split, runs the stateless steps,
pre-aggregates, and cuts the rows by the directory.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator

from penstock.engine.stopwatch import Stopwatch
from penstock.engine.task.exchange.branches import Branches
from penstock.engine.task.exchange.late_rows import LateRows
from penstock.engine.task.read import SplitReading
from penstock.engine.task.site.step import site_step
from penstock.engine.wire.blob import Blob, Header
from penstock.engine.wire.job import (
    CONTROL,
    EpochJob,
    Message,
    RouteReport,
    RouteTask,
    TaskFailure,
    route_producer,
    site_producer,
)
from penstock.errors import PenstockError
from penstock.storage.faults import FaultPoint, reach


def run_route(job: EpochJob, task: RouteTask) -> Iterator[Message]:
    """Yield the messages of one split; an error of Penstock becomes a failure message."""
    return _guarded(route_producer(task.ordinal), route(job, task))


def run_level(job: EpochJob, level: int, partition: int, messages: Iterable[Message]) -> Iterator[Message]:
    """Run the site of a partition on its blobs, and forward messages for later levels and reports unchanged."""
    blobs: list[Blob] = []
    for message in messages:
        if message.subquery == level and isinstance(message.content, Blob):
            blobs.append(message.content)
        else:
            yield message
    if partition < job.directories[level].sites:
        yield from _guarded(site_producer(level, partition), site_step(job, level, partition, blobs))


def partition_of(site: int, width: int) -> int:
    """Return the partition in which a site runs, among `width` partitions."""
    return site % width


def _guarded(producer: str, messages: Iterator[Message]) -> Iterator[Message]:
    """Yield the messages, or a failure message on an error of Penstock: a retry by the executor would only repeat
    it."""
    try:
        yield from messages
    except PenstockError as error:
        yield Message(CONTROL, 0, TaskFailure(producer, error))


def route(job: EpochJob, task: RouteTask) -> Iterator[Message]:
    """Yield the messages of one split: a blob for every site of the subqueries that it feeds, and its report."""
    watch = Stopwatch()
    producer, reading, late = route_producer(task.ordinal), SplitReading(job, task), LateRows(job, task)
    branches = Branches(job, job.program.inputs[task.input].branches, producer)
    for rows in reading.taken():
        watch.lap("read")
        branches.take(rows.on_time)
        if rows.behind is not None:
            late.add(rows.behind, branches.take_behind(rows.behind, task.late_below))
        watch.lap("prepare")
    reach(FaultPoint.ROUTE_READ)
    watch.lap("read")
    diverted = (*reading.stage_bad(), *late.stage(reading.places))
    reach(FaultPoint.ROUTE_DIVERTED)
    header = Header(producer, uuid.uuid4().hex, ordinal=task.ordinal, seen=reading.seen, numbered=reading.numbered)
    staged = (*diverted, *branches.staged())
    watch.lap("write")
    yield from branches.messages(header)
    watch.lap("exchange")
    report = RouteReport(
        producer=header.producer,
        attempt=header.attempt,
        input=task.input,
        seen=reading.seen,
        rows_read=reading.rows,
        rows_out=branches.rows_out,
        rows_late=len(late.places),
        rows_bad=reading.bad,
        numbered=reading.numbered,
        staged=staged,
        time=watch.task_time(),
    )
    yield Message(CONTROL, task.ordinal, report)
