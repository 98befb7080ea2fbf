"""The adapter: any streaming DataFrame as a source.

Structured Streaming runs the query that makes the batches; each batch becomes an epoch of Penstock's own loop, which
also runs epochs between batches. Spark may offer a batch again after a crash: the manifest knows the last one that was
committed, and which streaming query it came from. Batches are handed over one by one, and answered once committed.
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
from penstock.connectors.source import Offer, ReadResult
from penstock.errors import CheckpointError, PenstockError, SourceError
from penstock.types import normalise

SUBSTREAM = "spark"
BATCH_ROWS = 100_000  # that Spark hands over at a time: ten times its default, which costs it less per row


@dataclass
class Batch:
    """A micro-batch on offer. `done` is set when the loop has committed it, or will never do so."""

    frame: Any
    number: int
    partitions: int
    done: threading.Event = field(default_factory=threading.Event)
    committed: bool = False


class Handoff:
    """A slot for one batch. Spark's thread puts it there and waits; the loop's thread looks, commits, answers."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._batch: Batch | None = None
        self._closed = False
        self.query: StreamingQuery | None = None  # the one that makes the batches, once it is started

    @property
    def batch(self) -> Batch | None:
        """The batch that waits, if there is one."""
        return self._batch

    def put(self, batch: Batch) -> None:
        """Offer a batch and wait until it is committed. Raises where it is not: Spark will offer it again."""
        with self._lock:
            if not self._closed:
                self._batch = batch
            else:
                batch.done.set()
        batch.done.wait()
        if not batch.committed:
            raise PenstockError("the run has stopped", detail=f"batch {batch.number} is not committed")

    def committed(self, number: int) -> None:
        """All batches up to `number` are committed."""
        with self._lock:
            if self._batch is not None and self._batch.number <= number:
                self._batch.committed = True
                self._batch.done.set()
                self._batch = None

    def close(self) -> None:
        """No batch will be committed any more."""
        with self._lock:
            self._closed = True
            if self._batch is not None:
                self._batch.done.set()
                self._batch = None


@dataclass(frozen=True)
class BatchSplit:
    """One partition of a micro-batch, for the plan of an epoch; its rows are read where Spark has them."""

    batch: Batch
    substream: str = SUBSTREAM
    rows: int = 0

    @property
    def where(self) -> str:
        return f"batch {self.batch.number} of the Spark source"

    def read(self, columns: tuple[str, ...]) -> Iterator[ReadResult]:
        raise NotImplementedError("the rows of a batch are read by the job of the epoch")  # pragma: no cover


@dataclass(frozen=True, eq=False)
class SparkConnector:
    """A streaming DataFrame. `bounded`: when its streaming query ends by itself, the stream has ended."""

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
        """Start the streaming query; its own checkpoint lies inside Penstock's, apart from those of other sources."""
        writer = self.frame.writeStream.foreachBatch(self._offer_batch).trigger(**self.trigger)
        query = writer.option("checkpointLocation", str(checkpoint / "spark" / quote(self.name, safe=""))).start()
        self.handoff.query = query

    def detach(self) -> None:
        self.handoff.close()
        if self.handoff.query is not None:
            self.handoff.query.stop()

    def _offer_batch(self, frame: DataFrame, number: int) -> None:
        # The session is a copy that the streaming query has for itself.
        frame.sparkSession.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", str(BATCH_ROWS))
        partitions = frame._jdf.queryExecution().toRdd().getNumPartitions()
        self.handoff.put(Batch(frame, number, partitions))


@dataclass(frozen=True)
class _Recorded:
    query: str | None = None
    batch: Annotated[int, msgspec.Meta(ge=-1, le=2**63 - 1)] = -1


class AdapterReader:
    """Offers the batch that waits, if it is a new one of the right streaming query."""

    def __init__(self, connector: SparkConnector) -> None:
        self._connector, self._handoff = connector, connector.handoff

    def offer(self, progress: dict[str, Any] | None, max_rows: int) -> Offer:
        known, query = recorded(progress or {}, _Recorded), self._handoff.query
        if query is not None and known.query not in (None, query.id):
            raise _other_query(str(known.query), query.id)
        self._handoff.committed(known.batch)  # Spark offers the last batch again if it did not hear of the commit
        batch = self._handoff.batch
        if batch is None or query is None:
            return Offer((), progress or {}, self._has_ended(query))
        splits = tuple(BatchSplit(batch) for _ in range(batch.partitions))
        return Offer(splits, {"query": query.id, "batch": batch.number}, False)

    def committed(self, progress: dict[str, Any]) -> None:
        self._handoff.committed(progress.get("batch", -1))  # it may have noted nothing yet

    def _has_ended(self, query: StreamingQuery | None) -> bool:
        if query is None or query.isActive:
            return False
        if (error := query.exception()) is not None:
            raise SourceError(
                "the Spark source failed", detail=str(error).strip().splitlines()[0], hint="mend it and start again"
            )
        return self._connector.bounded and self._handoff.batch is None


def _other_query(known: str, found: str) -> CheckpointError:
    return CheckpointError(
        "this checkpoint was fed by another streaming query",
        detail=f"the manifest knows query {known}, and this is query {found}",
        hint="restore the folder `spark` of the checkpoint, or start again with a new checkpoint",
    )
