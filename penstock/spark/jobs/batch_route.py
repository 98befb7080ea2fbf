"""The route step over a micro-batch: Spark hands each partition over as Arrow, and gets back addressed messages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby

import pyarrow as pa
from pyspark import RDD, TaskContext
from pyspark.serializers import CPickleSerializer
from pyspark.sql import Row

from penstock.connectors.bad_rows import divert_malformed
from penstock.connectors.source import ReadResult
from penstock.engine.task.level import run_route
from penstock.engine.wire.job import EpochJob, RouteTask
from penstock.spark.jobs.addressed import Addressed, addressed
from penstock.spark.source.adapter import BatchSplit
from penstock.types import conform

_MESSAGES = pa.schema([("partition", pa.int32()), ("message", pa.binary())])


def routes_by_batch(routes: Sequence[RouteTask]) -> list[list[RouteTask]]:
    """The route tasks of each micro-batch, one per partition and in their order."""
    of_batches = [route for route in routes if isinstance(route.split, BatchSplit)]
    return [list(tasks) for _, tasks in groupby(of_batches, key=lambda route: route.input)]


def routed_batch(job: EpochJob, folder: str | None, first: RouteTask, partitions_before: int) -> RDD[Addressed]:
    """The messages of all partitions of a batch. `first` is the route task of its first partition, which is partition
    number `partitions_before` of the whole step: tasks know themselves by that number."""
    assert isinstance(first.split, BatchSplit)
    frame = first.split.batch.frame
    # The batch itself stays at the driver.
    task = replace(first, ordinal=first.ordinal - partitions_before, split=None)  # type: ignore[arg-type]
    packed = frame.mapInArrow(partial(_route_partition, job, folder, task), "partition int, message binary")
    return packed.rdd.map(_unpacked)


def _route_partition(
    job: EpochJob, folder: str | None, task: RouteTask, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    source, context = job.program.inputs[task.input], TaskContext.get()
    arrived = list(batches)
    whole = pa.Table.from_batches(arrived) if arrived else source.schema.empty_table()
    split = _PartitionSplit(conform(whole, source.schema, "the Spark source"), source.time)
    ordinal = task.ordinal + (context.partitionId() if context else 0)
    for partition, message in addressed(job, folder, run_route(job, replace(task, ordinal=ordinal, split=split))):
        packed = CPickleSerializer().dumps(message)
        yield pa.record_batch([pa.array([partition], pa.int32()), pa.array([packed], pa.binary())], schema=_MESSAGES)


def _unpacked(row: Row) -> Addressed:
    return row[0], CPickleSerializer().loads(bytes(row[1]))


@dataclass(frozen=True)
class _PartitionSplit:
    """The rows of one partition, as a split of the route step."""

    table: pa.Table
    time: str
    substream: str = "spark"
    where: str = "the Spark source"

    @property
    def rows(self) -> int:
        return int(self.table.num_rows)

    def read(self, columns: tuple[str, ...]) -> Iterator[ReadResult]:
        found = divert_malformed(self.table, self.time, self.where, lambda: 0)
        yield ReadResult(found.rows.select(list(columns)), found.bad)
