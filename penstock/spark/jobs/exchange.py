"""Messages in a Spark job, each with its destination partition.

On one host, large blobs are written to files, and only references go through Spark: otherwise rows would pass through
the JVM several times.

On several hosts, anchors make a site run again on the executor where it ran last, which has its runs open and cached.
An anchor is a tiny RDD, partitioned like the exchange, that executors keep in memory. The exchange is the blobs *minus*
the keys of the anchor: no blob has such a key, so nothing is removed, but Spark then runs each task where its partition
of the anchor is. (A union would have the same effect, but only for whole hosts: several executors of one host would
take each other's sites.)
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import Any

from pyspark import RDD, SparkContext
from pyspark.serializers import BatchedSerializer, CPickleSerializer, pack_long

from penstock.engine.task.level import partition_of
from penstock.engine.wire.blob import Blob
from penstock.engine.wire.job import CONTROL, EpochJob, Message, TaskFailure
from penstock.errors import StorageError
from penstock.spark.workers.transport import Parcel, parcel_in

Addressed = tuple[int, Message | Parcel]

_LEAST_BYTES = 1 << 16  # blobs above this size are written to files
_SAME = 1  # identifies the partition function: Spark compares it to see that two RDDs are partitioned alike
_WHILE = 0.2  # seconds that placing one partition takes, so that no executor takes the partitions of another


def addressed(job: EpochJob, folder: str | None, messages: Iterable[Message | Parcel]) -> Iterator[Addressed]:
    """Yield the messages with their partitions; large blobs as references to files in `folder`, if given. If a file
    cannot be written, yield a failure message and stop: a retry would only repeat the error."""
    for message in messages:
        try:
            packed = _packed(folder, message)
        except StorageError as error:
            yield 0, Message(CONTROL, 0, TaskFailure("parcel", error))
            return
        yield partition_of(message.site, job.width), packed


def _packed(folder: str | None, message: Message | Parcel) -> Message | Parcel:
    """Return a message, with a large blob written to a file and replaced by its reference."""
    match message:
        case Message(subquery, site, Blob(_, rows) as blob) if (
            folder and rows is not None and rows.nbytes > _LEAST_BYTES
        ):
            return parcel_in(folder, subquery, site, blob)
    return message


def opened(level: int, inbox: Iterable[Addressed], passing: list[Parcel]) -> Iterator[Message]:
    """Yield the messages of an inbox. References to blobs for later levels are not opened but appended to `passing`."""
    for _, message in inbox:
        match message:
            case Message():
                yield message
            case Parcel(subquery, site) if subquery == level:
                yield Message(subquery, site, message.open())
            case _:
                passing.append(message)


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
            self.let_go()
            made = self._context.parallelize(range(width, 2 * width), width).mapPartitions(_anchor_of)
            self._anchor = self._pairs(made).partitionBy(self._partitioner(width)).cache()
            self._read(self._anchor).mapPartitions(_take_a_while).collect()
            self._width = width
        self._executors = executors
        return self._anchor

    def let_go(self) -> None:
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
