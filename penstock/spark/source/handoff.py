"""The hand-over of micro-batches from Structured Streaming to the epoch loop: one by one, answered once committed."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql.streaming.query import StreamingQuery

from penstock.errors import PenstockError


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
