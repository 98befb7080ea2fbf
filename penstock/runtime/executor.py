"""The job of an epoch on Spark: one RDD of splits, one shuffle per level, one action.

Spark schedules, shuffles and retries; it sees few records, each a large binary. A step that fed two exchanges would run
twice, so there is one chain: blobs for later levels and reports pass through the levels before their own.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Sequence
from functools import partial

from py4j.protocol import Py4JJavaError
from pyspark import RDD, SparkContext, cloudpickle
from pyspark.errors import PySparkException

from penstock.engine.job import EpochJob, Report, RouteTask
from penstock.engine.level import run_level, run_route
from penstock.errors import PenstockError, QueryError
from penstock.plan.program import Program
from penstock.runtime.adapter import BatchSplit
from penstock.runtime.allocator import keep_freed_memory
from penstock.runtime.batch_route import Addressed, addressed, routed_batch, routes_by_batch
from penstock.runtime.shuffles import forget_shuffles


class SparkExecutor:
    """Runs epochs on a context, which outlives it: the next query of this process uses the same one."""

    def __init__(self, context: SparkContext) -> None:
        self._context = context
        self._group = f"penstock-{uuid.uuid4().hex}"
        self._pickled: Program | None = None  # a program that is known to travel

    def run(self, job: EpochJob, routes: Sequence[RouteTask]) -> list[Report]:
        self._context.setJobGroup(self._group, f"epoch {job.epoch}", interruptOnCancel=False)
        self._require_that_it_travels(job.program)
        chain = self._routed(job, routes)
        for level in range(len(job.program.subqueries)):
            exchanged = chain.partitionBy(job.width, _identity)
            chain = exchanged.mapPartitionsWithIndex(partial(_run_partition, job, level))
        try:
            return [m.content for _, m in chain.collect() if not isinstance(m.content, bytes)]
        except (Py4JJavaError, PySparkException) as error:  # the second where there is a SparkSession in this process
            raise _task_failed(job, error) from error
        finally:
            forget_shuffles(chain)

    def _require_that_it_travels(self, program: Program) -> None:
        """Functions of users are pickled with it. Spark would print a trace before it gives up."""
        if program is not self._pickled:
            try:
                cloudpickle.dumps(program)
            except Exception as error:  # whatever the values of a closure raise
                raise _cannot_travel(error) from error
            self._pickled = program

    def _routed(self, job: EpochJob, routes: Sequence[RouteTask]) -> RDD[Addressed]:
        """The messages of all splits: first those of micro-batches, then those that tasks read themselves."""
        batches, splits = routes_by_batch(routes), [r for r in routes if not isinstance(r.split, BatchSplit)]
        parts, partitions = [], 0
        for tasks in batches:
            parts.append(routed_batch(job, tasks[0], partitions))
            partitions += len(tasks)
        if splits or not parts:
            # A task costs as much as routing some hundred thousand rows, so there is one per core, with several splits.
            tasks_of_splits = max(1, min(len(splits), self._context.defaultParallelism))
            parts.append(self._context.parallelize(splits, tasks_of_splits).mapPartitions(partial(_route_all, job)))
        return parts[0] if len(parts) == 1 else self._context.union(parts)

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


def _cannot_travel(error: Exception) -> QueryError:
    return QueryError(
        "a Python function of the query cannot travel to the workers",
        detail=f"{type(error).__name__}: {error}",
        hint="make what it needs inside of it (locks, open files and connections stay where they are), "
        "or run without Spark, with master inline",
    )


def _task_failed(job: EpochJob, error: Py4JJavaError | PySparkException) -> PenstockError:
    told = error.java_exception.getMessage() if isinstance(error, Py4JJavaError) else error
    return PenstockError(
        f"a task of epoch {job.epoch} failed again and again",
        detail=_python_part(str(told))[:500],
        hint="the checkpoint is unhurt: mend the cause and start the query again",
    )


def _python_part(message: str) -> str:
    """The line of the Python exception in a Java message: the first one behind a traceback that is not indented. Where
    there is none, the first line."""
    before, traceback, behind = message.rpartition("Traceback (most recent call last):\n")
    lines = behind.splitlines() if traceback else message.strip().splitlines()
    return next((line for line in lines if line and not line[0].isspace()), before.strip())
