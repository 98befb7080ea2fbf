"""The route step: read a split, run the stateless steps, pre-aggregate, and cut the rows by the directory.

Lateness is judged here, once, before anything else is done with a row.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator

from penstock.engine.stopwatch import Stopwatch
from penstock.engine.task.exchange.branches import Branches
from penstock.engine.task.exchange.late_rows import LateRows
from penstock.engine.task.read import SplitReading
from penstock.engine.wire.blob import Header
from penstock.engine.wire.job import CONTROL, EpochJob, Message, RouteReport, RouteTask, route_producer
from penstock.storage.faults import FaultPoint, reach


def route(job: EpochJob, task: RouteTask) -> Iterator[Message]:
    """All messages of one split: a blob for every site of the subqueries it feeds, and its report."""
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
