"""The job of an epoch on Spark: one RDD of splits, one shuffle per level, one action.

Spark schedules, shuffles and retries; it sees few records, each a large binary. A step that fed two exchanges would run
twice, so there is one chain: blobs for later levels and reports pass through the levels before their own.
The partitions of a micro-batch are handed to the route step as Arrow.

Where there are several hosts, anchors make a site run again on the executor it ran on last, where its runs are open and
cached. An anchor is an RDD of next to nothing, partitioned like the exchange, that executors keep in memory. The
exchange is the blobs *without* the keys of the anchor: no blob has such a key, so nothing is taken away, but Spark then
runs each task where its partition of the anchor is. (A union would have the same effect, but only for whole hosts:
several executors of one host would take each other's sites.)
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark import RDD, SparkContext, TaskContext, cloudpickle
from pyspark.errors import PySparkException
from pyspark.serializers import BatchedSerializer, CPickleSerializer, pack_long
from pyspark.sql import Row

from penstock.arrow import schema_of
from penstock.clock import SYSTEM_CLOCK
from penstock.connectors.bad_rows import divert_malformed
from penstock.connectors.source import ReadResult
from penstock.engine.task.level import run_level, run_route
from penstock.engine.wire.blob import Blob
from penstock.engine.wire.job import EpochJob, LookAhead, Message, Report, RouteTask, ToSite, nothing_follows
from penstock.plan.program import Program
from penstock.scratch import scratch_folder
from penstock.spark.failures import TaskFailed, attempt_failed, cannot_travel, task_failed
from penstock.spark.hosts import on_one_host, tries_tasks_once
from penstock.spark.session import jvm_is_dead, spark_folder
from penstock.spark.source.adapter import BatchSplit
from penstock.spark.workers.allocator import keep_freed_memory
from penstock.spark.workers.transport import Addressed, BlobRef, addressed, opened
from penstock.storage.disk_errors import explained, is_lasting
from penstock.types import conform

_SAME = 1  # names the way to partition: Spark compares it to see that two RDDs lie alike
_WHILE = 0.2  # seconds that placing one partition takes, so that no executor takes those of another
_MESSAGES = schema_of({"partition": pa.int32(), "message": pa.binary()})


class SparkExecutor:
    """Runs epochs as Spark jobs. The context outlives the executor: the next query of this process uses the same
    one."""

    def __init__(self, context: SparkContext) -> None:
        self._context = context
        self._group = f"penstock-{uuid.uuid4().hex}"
        self._pickled: Program | None = None  # the last program that was found to be picklable
        self._scratch = scratch_folder("blobs")
        self._spark_repeats = not tries_tasks_once(context)
        self._cancelled = False
        self._anchors = None if on_one_host(context) else Anchors(context)

    def run(self, job: EpochJob, routes: Sequence[RouteTask], following: LookAhead = nothing_follows) -> list[Report]:
        self._cancelled = False
        self._context.setJobGroup(self._group, f"epoch {job.epoch}", interruptOnCancel=False)
        self._require_that_it_travels(job.program)
        try:
            return self._attempt(job, routes)
        except TaskFailed as error:
            if self._spark_repeats or self._cancelled or jvm_is_dead(self._context):
                raise
            raise attempt_failed(error) from error

    def _attempt(self, job: EpochJob, routes: Sequence[RouteTask]) -> list[Report]:
        """Run one attempt of the epoch, with a temporary folder for blobs if all tasks are on one host."""
        if not on_one_host(self._context):
            return self._run(job, routes, None)
        with TemporaryDirectory(dir=self._scratch, ignore_cleanup_errors=True) as folder:
            return self._run(job, routes, folder)

    def _run(self, job: EpochJob, routes: Sequence[RouteTask], folder: str | None) -> list[Report]:
        """Run the job and convert its errors. `folder` is for large blobs that tasks pass to tasks of other levels."""
        try:
            return _reports(self._chain(job, routes, folder))
        except (Py4JJavaError, PySparkException) as error:  # the second if this process has a SparkSession
            full = spark_folder(self._context) if on_one_host(self._context) else None
            raise task_failed(job.epoch, _error_text(error), full) from error
        except OSError as error:  # the driver passes the splits to Spark in a file
            if not is_lasting(error):
                raise
            raise explained(error, spark_folder(self._context)) from error

    def _chain(self, job: EpochJob, routes: Sequence[RouteTask], folder: str | None) -> RDD[Addressed]:
        """Return the RDD of all messages after the last level."""
        chain = self._routed(job.for_routing(), routes, folder)
        for level in range(len(job.program.subqueries)):
            exchanged = self._exchanged(chain, job.width)
            of_level = job.for_sites(partial(_is_on, level), with_other_runs=True)
            chain = exchanged.mapPartitionsWithIndex(partial(_run_partition, of_level, folder, level))
        return chain

    def _exchanged(self, chain: RDD[Addressed], width: int) -> RDD[Addressed]:
        """Return the messages by partition; on several hosts, each partition on the executor where it was before."""
        return self._anchors.exchanged(chain, width) if self._anchors else chain.partitionBy(width, _identity)

    def _require_that_it_travels(self, program: Program) -> None:
        """Raise an error if the program, with functions of users, cannot be pickled: Spark would print a trace
        first."""
        if program is not self._pickled:
            try:
                cloudpickle.dumps(program)
            except Exception as error:  # pickling the values of a closure can raise anything
                raise cannot_travel(error) from error
            self._pickled = program

    def _routed(self, job: EpochJob, routes: Sequence[RouteTask], folder: str | None) -> RDD[Addressed]:
        """Return the messages of all splits: first those of micro-batches, then those that tasks read themselves."""
        batches, splits = _routes_by_batch(routes), [r for r in routes if not isinstance(r.split, BatchSplit)]
        parts, partitions = [], 0
        for tasks in batches:
            parts.append(_routed_batch(job, folder, tasks[0], partitions))
            partitions += len(tasks)
        if splits or not parts:
            # Starting a task costs as much as routing several hundred thousand rows: use one per core.
            tasks_of_splits = max(1, min(len(splits), self._context.defaultParallelism))
            spread = self._context.parallelize(splits, tasks_of_splits)
            parts.append(spread.mapPartitions(partial(_route_all, job, folder)))
        return parts[0] if len(parts) == 1 else self._context.union(parts)

    def cancel(self) -> None:
        self._cancelled = True
        self._context.cancelJobGroup(self._group)

    def close(self) -> None:
        """Remove the anchors; the context stays."""
        if self._anchors:
            self._anchors.release()


def _reports(chain: RDD[Addressed]) -> list[Report]:
    """Run the job and return the reports; remove its shuffle files."""
    try:
        return [m.content for _, m in chain.collect() if isinstance(m, Message) and not isinstance(m.content, Blob)]
    finally:
        _forget_shuffles(chain)


def _is_on(level: int, to: ToSite) -> bool:
    return to.subquery == level


def _identity(partition: int) -> int:
    return partition


def _route_all(job: EpochJob, folder: str | None, tasks: Iterable[RouteTask]) -> Iterator[Addressed]:
    """Yield the messages of some splits."""
    keep_freed_memory()
    for task in tasks:
        yield from addressed(job, folder, run_route(job, task, SYSTEM_CLOCK))


def _run_partition(
    job: EpochJob, folder: str | None, level: int, partition: int, inbox: Iterable[Addressed]
) -> Iterator[Addressed]:
    """Run the site of a partition on one level, and forward the messages of other levels."""
    keep_freed_memory()
    passing: list[BlobRef] = []
    yield from addressed(job, folder, run_level(job, level, partition, opened(level, inbox, passing), SYSTEM_CLOCK))
    yield from addressed(job, folder, passing)


def _error_text(error: Py4JJavaError | PySparkException) -> str:
    return str(error.java_exception.getMessage() if isinstance(error, Py4JJavaError) else error)


def _forget_shuffles(rdd: RDD[Any]) -> None:
    """Remove the shuffle files of the job of `rdd`, and the driver's records of them."""
    cleaner = rdd.context._jsc.sc().cleaner()
    if cleaner.isDefined():
        for shuffle in _shuffle_ids(rdd._jrdd.rdd()):
            cleaner.get().doCleanupShuffle(shuffle, True)


def _shuffle_ids(java_rdd: Any) -> list[int]:
    """Return the ids of the shuffles that an RDD depends on, except those of cached RDDs."""
    found: list[int] = []
    dependencies = java_rdd.dependencies()
    for index in range(dependencies.size()):
        dependency = dependencies.apply(index)
        if dependency.rdd().getStorageLevel().useMemory():
            continue  # a cached RDD (an anchor) outlives the epoch
        if dependency.getClass().getSimpleName() == "ShuffleDependency":
            found.append(dependency.shuffleId())
        found += _shuffle_ids(dependency.rdd())
    return found


def _routes_by_batch(routes: Sequence[RouteTask]) -> list[list[RouteTask]]:
    """Return the route tasks of each micro-batch, one per partition, in the order of partitions."""
    of_batches = [route for route in routes if isinstance(route.split, BatchSplit)]
    return [list(tasks) for _, tasks in groupby(of_batches, key=lambda route: route.input)]


def _routed_batch(job: EpochJob, folder: str | None, first: RouteTask, partitions_before: int) -> RDD[Addressed]:
    """Return the messages of all partitions of a batch. `first` is the route task of its first partition, which is
    partition number `partitions_before` of the whole step; tasks derive their ordinal from that number."""
    assert isinstance(first.split, BatchSplit)
    frame = first.split.batch.frame
    # The batch itself stays on the driver.
    task = replace(first, ordinal=first.ordinal - partitions_before, split=None)  # type: ignore[arg-type]
    packed = frame.mapInArrow(partial(_route_partition, job, folder, task), "partition int, message binary")
    return packed.rdd.map(_unpacked)


def _route_partition(
    job: EpochJob, folder: str | None, task: RouteTask, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Yield the pickled messages of one partition of a micro-batch, as record batches of (partition, message)."""
    source, context = job.program.inputs[task.input], TaskContext.get()
    arrived = list(batches)
    whole = pa.Table.from_batches(arrived) if arrived else source.schema.empty_table()
    split = _PartitionSplit(conform(whole, source.schema, "the Spark source"), source.time)
    ordinal = task.ordinal + (context.partitionId() if context else 0)
    routed = run_route(job, replace(task, ordinal=ordinal, split=split), SYSTEM_CLOCK)
    for partition, message in addressed(job, folder, routed):
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


class Anchors:
    """The anchors of a context. Invariant: `_anchor` has `_width` partitions, placed on the `_executors` executors that
    existed then. Spark recomputes a lost partition on another executor; when executors are added, all partitions are
    placed again."""

    def __init__(self, context: SparkContext) -> None:
        self._context = context
        self._anchor: Any = None
        self._width = self._executors = 0

    def exchanged(self, chain: RDD[Addressed], width: int) -> RDD[Addressed]:
        """Return the messages by partition, each partition on the executor of its anchor."""
        partitioner = self._partitioner(width)
        blobs = self._pairs(chain.mapPartitions(_keyed, preservesPartitioning=True))
        return self._read(blobs.subtractByKey(self._placed(width), partitioner))

    def _placed(self, width: int) -> Any:
        """Return the anchor with `width` partitions; place it again if the width has changed or executors were
        added."""
        executors = len(self._context._jsc.sc().statusTracker().getExecutorInfos())
        if width != self._width or executors > self._executors:
            self.release()
            made = self._context.parallelize(range(width, 2 * width), width).mapPartitions(_anchor_of)
            self._anchor = self._pairs(made).partitionBy(self._partitioner(width)).cache()
            self._read(self._anchor).mapPartitions(_take_a_while).collect()
            self._width = width
        self._executors = executors
        return self._anchor

    def release(self) -> None:
        """Remove the anchor from the memory of the executors."""
        if self._anchor is not None:
            self._anchor.unpersist()
        self._anchor, self._width = None, 0

    def _partitioner(self, width: int) -> Any:
        return self._jvm.PythonPartitioner(width, _SAME)

    def _pairs(self, keyed: RDD[Any]) -> Any:
        keyed._bypass_serializer = True
        return self._jvm.PairwiseRDD(keyed._jrdd.rdd()).asJavaPairRDD()

    def _read(self, pairs: Any) -> RDD[Any]:
        return RDD(self._jvm.PythonRDD.valueOfPair(pairs), self._context, BatchedSerializer(CPickleSerializer()))

    @property
    def _jvm(self) -> Any:
        return self._context._jvm


def _keyed(messages: Iterable[Addressed]) -> Iterator[bytes]:
    """Yield each message in Spark's shuffle format: the number of its partition, and a batch of one record."""
    serializer = CPickleSerializer()
    for partition, message in messages:
        yield pack_long(partition)
        yield serializer.dumps([(partition, message)])


def _anchor_of(numbers: Iterable[int]) -> Iterator[bytes]:
    """Yield keys that fall into the same partitions as messages but that no message has, with a tiny value each."""
    for number in numbers:
        yield pack_long(number)
        yield CPickleSerializer().dumps([number])


def _take_a_while(numbers: Iterable[int]) -> Iterator[int]:
    """Yield the numbers after a pause, so that the tasks of a small job spread over all executors."""
    time.sleep(_WHILE)
    yield from numbers
