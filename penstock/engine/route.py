"""The route step: read a split, run the stateless prefix, pre-aggregate, and cut the rows by the directory.

Lateness is judged here, once, before anything else is done with a row.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Sequence

import pyarrow as pa

from penstock.checkpoint.faults import FaultPoint, reach
from penstock.checkpoint.manifest import Staged
from penstock.engine.blob import Header
from penstock.engine.deliver import blobs_for_sites, writer_for
from penstock.engine.job import CONTROL, EpochJob, Message, RouteReport, RouteTask, route_producer
from penstock.engine.reading import SplitReading
from penstock.engine.steps import run_steps
from penstock.plan.subqueries import SINK


def route(job: EpochJob, task: RouteTask) -> Iterator[Message]:
    """All messages of one split: a blob for every site of the subquery it feeds, and its report."""
    started = time.perf_counter()
    source, reading = job.program.inputs[task.input], SplitReading(job, task)
    tables = [run_steps(rows, source.steps) for rows in reading.on_time()]
    reach(FaultPoint.ROUTE_READ)
    staged = list(reading.stage_diverted())
    reach(FaultPoint.ROUTE_DIVERTED)
    header = Header(route_producer(task.ordinal), uuid.uuid4().hex, seen=reading.seen, rows_read=reading.rows)
    rows_out = 0
    if source.target == SINK:
        rows_out = _stage_results(job, tables, header, staged)
    else:
        yield from blobs_for_sites(
            _pre_aggregated(job, source.target, tables), job.directories[source.target], source.target, header
        )
    report = RouteReport(
        producer=header.producer,
        attempt=header.attempt,
        input=task.input,
        seen=reading.seen,
        rows_read=reading.rows,
        rows_out=rows_out,
        rows_late=reading.late,
        rows_bad=reading.bad,
        staged=tuple(staged),
        seconds=time.perf_counter() - started,
    )
    yield Message(CONTROL, task.ordinal, report)


def _pre_aggregated(job: EpochJob, subquery: int, tables: Sequence[pa.Table]) -> pa.Table | None:
    operator = job.program.subqueries[subquery].operator
    partials = [operator.partials(table) for table in tables if table.num_rows]
    return operator.combine(partials) if len(partials) > 1 else next(iter(partials), None)


def _stage_results(job: EpochJob, tables: Sequence[pa.Table], header: Header, staged: list[Staged]) -> int:
    writer = writer_for(job, "results", header.producer, job.program.result_schema)
    for table in tables:
        writer.write(table)
    if file := writer.finish("results"):
        staged.append(file)
    return writer.rows
