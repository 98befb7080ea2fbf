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

from penstock.engine.job import EpochJob, Message, Report, RouteTask
from penstock.engine.level import partition_of, run_level, run_route
from penstock.errors import PenstockError
from penstock.runtime.shuffles import forget_shuffles

Addressed = tuple[int, Message]  # a message and the partition it goes to


class SparkExecutor:
    """Runs epochs on a context. `owned`: the context was made for this executor and ends with it."""

    def __init__(self, context: SparkContext, owned: bool = False) -> None:
        self._context, self._owned = context, owned
        self._group = f"penstock-{uuid.uuid4().hex}"

    def run(self, job: EpochJob, routes: Sequence[RouteTask]) -> list[Report]:
        self._context.setJobGroup(self._group, f"epoch {job.epoch}", interruptOnCancel=False)
        splits = self._context.parallelize(routes, max(1, len(routes)))
        return self.run_levels(job, splits.mapPartitions(partial(_route_all, job)))

    def run_levels(self, job: EpochJob, routed: RDD[Addressed]) -> list[Report]:
        """The rest of the job, behind the route step."""
        chain = routed
        for level in range(len(job.program.subqueries)):
            exchanged = chain.partitionBy(job.width, _identity)
            chain = exchanged.mapPartitionsWithIndex(partial(_run_partition, job, level))
        try:
            return [m.content for _, m in chain.collect() if not isinstance(m.content, bytes)]
        except Py4JJavaError as error:
            raise _task_failed(job, error) from error
        finally:
            forget_shuffles(chain)

    def cancel(self) -> None:
        self._context.cancelJobGroup(self._group)

    def close(self) -> None:
        if self._owned:
            self._context.stop()


def _identity(partition: int) -> int:
    return partition


def _route_all(job: EpochJob, tasks: Iterable[RouteTask]) -> Iterator[Addressed]:
    for task in tasks:
        yield from _addressed(job, run_route(job, task))


def _run_partition(job: EpochJob, level: int, partition: int, inbox: Iterable[Addressed]) -> Iterator[Addressed]:
    return _addressed(job, run_level(job, level, partition, (message for _, message in inbox)))


def _addressed(job: EpochJob, messages: Iterable[Message]) -> Iterator[Addressed]:
    return ((partition_of(message, job.width), message) for message in messages)


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
