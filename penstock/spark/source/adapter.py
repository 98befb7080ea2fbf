"""An adapter that makes any streaming DataFrame a source.

Structured Streaming runs the query that makes the batches; each batch becomes an epoch of Penstock's own loop, which
also runs epochs between batches. Spark may offer a batch again after a crash: the manifest records the last committed
batch, and the streaming query that it came from. Batches are handed over one by one, and acknowledged once committed.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.query import StreamingQuery

from penstock.connectors.recorded import recorded
from penstock.connectors.source import AcknowledgingReader, AttachedConnector, Offer, ReadResult
from penstock.errors import CheckpointError, PenstockError, SourceError
from penstock.types import normalise

SPARK_SUBSTREAM = "spark"
BATCH_ROWS = 100_000  # rows per Arrow batch: ten times Spark's default, which costs less per row


@dataclass
class MicroBatch:
    """A micro-batch on offer. `done` is set when the loop has committed the batch, or never will."""

    frame: Any
    number: int
    partitions: int
    done: threading.Event = field(default_factory=threading.Event)
    committed: bool = False


class Handoff:
    """A slot for one batch, shared by two threads: Spark's thread puts a batch and waits; the loop's thread takes,
    commits and acknowledges it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._batch: MicroBatch | None = None
        self._closed = False
        self.query: StreamingQuery | None = None  # the streaming query that makes the batches, once started

    @property
    def batch(self) -> MicroBatch | None:
        """Return the waiting batch, if there is one."""
        return self._batch

    def put(self, batch: MicroBatch) -> None:
        """Offer a batch and wait until it is committed. Raise an error if it is not: Spark will offer it again."""
        with self._lock:
            if not self._closed:
                self._batch = batch
            else:
                batch.done.set()
        batch.done.wait()
        if not batch.committed:
            raise PenstockError("the run has stopped", detail=f"batch {batch.number} is not committed")

    def committed(self, number: int) -> None:
        """Acknowledge the waiting batch if its number is at most `number`."""
        with self._lock:
            if self._batch is not None and self._batch.number <= number:
                self._batch.committed = True
                self._batch.done.set()
                self._batch = None

    def close(self) -> None:
        """Reject the waiting batch and all later ones: the run has ended."""
        with self._lock:
            self._closed = True
            if self._batch is not None:
                self._batch.done.set()
                self._batch = None


@dataclass(frozen=True)
class BatchSplit:
    """One partition of a micro-batch, for planning an epoch; the job of the epoch reads its rows."""

    batch: MicroBatch
    substream: str = SPARK_SUBSTREAM
    rows: int = 0

    @property
    def where(self) -> str:
        return f"batch {self.batch.number} of the Spark source"

    def read(self, columns: tuple[str, ...]) -> Iterator[ReadResult]:
        raise NotImplementedError("the rows of a batch are read by the job of the epoch")  # pragma: no cover


@dataclass(frozen=True, eq=False)
class SparkConnector(AttachedConnector):
    """A source that reads a streaming DataFrame. `bounded`: the stream has ended when its streaming query ends by
    itself."""

    frame: DataFrame
    trigger: dict[str, Any]
    bounded: bool
    name: str
    handoff: Handoff = field(default_factory=Handoff)
    kind: str = "spark"

    def identity(self) -> dict[str, Any]:
        return {"name": self.name}

    def discover(self) -> pa.Schema:
        return normalise(to_arrow_schema(self.frame.schema, timezone="UTC"))

    def open(self, schema: pa.Schema, time: str) -> AdapterReader:
        return AdapterReader(self)

    def attach(self, checkpoint: Path) -> None:
        """Start the streaming query. Its own checkpoint is in a subfolder of Penstock's, one per source."""
        writer = self.frame.writeStream.foreachBatch(self._offer_batch).trigger(**self.trigger)
        query = writer.option("checkpointLocation", str(checkpoint / "spark" / quote(self.name, safe=""))).start()
        self.handoff.query = query

    def detach(self) -> None:
        """Reject batches that are not committed, and stop the streaming query."""
        self.handoff.close()
        if self.handoff.query is not None:
            self.handoff.query.stop()

    def _offer_batch(self, frame: DataFrame, number: int) -> None:
        """Offer a batch to the loop and wait until it is committed; Spark calls this for each micro-batch."""
        # The streaming query has its own copy of the session, so this setting affects no other query.
        frame.sparkSession.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", str(BATCH_ROWS))
        partitions = frame._jdf.queryExecution().toRdd().getNumPartitions()
        self.handoff.put(MicroBatch(frame, number, partitions))


@dataclass(frozen=True)
class _RecordedBatch:
    """The progress of the source in the manifest: the streaming query, and the number of the last committed batch."""

    query: str | None = None
    batch: Annotated[int, msgspec.Meta(ge=-1, le=2**63 - 1)] = -1


class AdapterReader(AcknowledgingReader):
    """Offers the waiting batch if it is new and comes from the streaming query of the checkpoint."""

    def __init__(self, connector: SparkConnector) -> None:
        self._connector, self._handoff = connector, connector.handoff

    def offer(self, progress: dict[str, Any] | None, max_rows: int) -> Offer:
        known, query = recorded(progress or {}, _RecordedBatch), self._handoff.query
        if query is not None and known.query not in (None, query.id):
            raise _other_query(str(known.query), query.id)
        self._handoff.committed(known.batch)  # Spark offers the last batch again if it missed the acknowledgement
        batch = self._handoff.batch
        if batch is None or query is None:
            return Offer((), progress or {}, self._has_ended(query))
        splits = tuple(BatchSplit(batch) for _ in range(batch.partitions))
        return Offer(splits, {"query": query.id, "batch": batch.number}, False)

    def committed(self, progress: dict[str, Any]) -> None:
        self._handoff.committed(progress.get("batch", -1))  # no batch is recorded before the first one

    def _has_ended(self, query: StreamingQuery | None) -> bool:
        """Return whether the stream has ended; raise an error if the streaming query failed."""
        if query is None or query.isActive:
            return False
        if (error := query.exception()) is not None:
            raise SourceError(
                "the Spark source failed",
                detail=str(error).strip().splitlines()[0],
                hint="fix it and restart the query",
            )
        return self._connector.bounded and self._handoff.batch is None


def _other_query(known: str, found: str) -> CheckpointError:
    return CheckpointError(
        "this checkpoint was fed by another streaming query",
        detail=f"the manifest knows query {known}, and this is query {found}",
        hint="restore the folder `spark` of the checkpoint, or start again with a new checkpoint",
    )
