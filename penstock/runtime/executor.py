"""The job of an epoch on Spark: one RDD of splits, one shuffle per level, one action.

Spark schedules, shuffles and retries; it sees few records, each a large binary. A step that fed two exchanges would run
twice, so there is one chain: blobs for later levels and reports pass through the levels before their own.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Sequence
from functools import partial

from py4j.protocol import Py4JJavaError
from pyspark import RDD, SparkContext

from penstock.engine.job import EpochJob, Report, RouteTask
from penstock.engine.level import run_level, run_route
from penstock.errors import PenstockError
from penstock.runtime.adapter import BatchSplit
from penstock.runtime.allocator import keep_freed_memory
from penstock.runtime.batch_route import Addressed, addressed, routed_batch
from penstock.runtime.shuffles import forget_shuffles


class SparkExecutor:
    """Runs epochs on a context, which outlives it: the next query of this process uses the same one."""

    def __init__(self, context: SparkContext) -> None:
        self._context = context
        self._group = f"penstock-{uuid.uuid4().hex}"

    def run(self, job: EpochJob, routes: Sequence[RouteTask]) -> list[Report]:
        self._context.setJobGroup(self._group, f"epoch {job.epoch}", interruptOnCancel=False)
        chain = self._routed(job, routes)
        for level in range(len(job.program.subqueries)):
            exchanged = chain.partitionBy(job.width, _identity)
            chain = exchanged.mapPartitionsWithIndex(partial(_run_partition, job, level))
        try:
            return [m.content for _, m in chain.collect() if not isinstance(m.content, bytes)]
        except Py4JJavaError as error:
            raise _task_failed(job, error) from error
        finally:
            forget_shuffles(chain)

    def _routed(self, job: EpochJob, routes: Sequence[RouteTask]) -> RDD[Addressed]:
        if routes and isinstance(routes[0].split, BatchSplit):
            return routed_batch(job, routes[0], routes[0].split.batch)
        # A task costs as much as routing some hundred thousand rows, so there is one per core, with several splits.
        tasks = max(1, min(len(routes), self._context.defaultParallelism))
        return self._context.parallelize(routes, tasks).mapPartitions(partial(_route_all, job))

    def cancel(self) -> None:
        self._context.cancelJobGroup(self._group)

    def close(self) -> None:
        """Nothing: the context stays."""


def _identity(partition: int) -> int:
    return partition


def _route_all(job: EpochJob, tasks: Iterable[RouteTask]) -> Iterator[Addressed]:
    keep_freed_memory()
    for task in tasks:
        yield from addressed(job, run_route(job, task))


def _run_partition(job: EpochJob, level: int, partition: int, inbox: Iterable[Addressed]) -> Iterator[Addressed]:
    keep_freed_memory()
    return addressed(job, run_level(job, level, partition, (message for _, message in inbox)))


def _task_failed(job: EpochJob, error: Py4JJavaError) -> PenstockError:
    lines = [line.strip() for line in str(error.java_exception.getMessage()).splitlines() if line.strip()]
    return PenstockError(
        f"a task of epoch {job.epoch} failed again and again",
        detail=_python_part(lines),
        hint="the checkpoint is unhurt: mend the cause and start the query again",
    )


def _python_part(lines: Sequence[str]) -> str:
    """The line of the Python exception in a Java trace, or its first line."""
    raised = [n for n, line in enumerate(lines) if line.startswith("Traceback")]
    tail = lines[raised[-1] :] if raised else lines
    candidates = [line for line in tail if not line.startswith(("at ", "File ", "Traceback", "Driver stacktrace"))]
    return (candidates[-1] if raised and candidates else lines[0])[:500]
