"""The hand-over of batches, without Spark: what is answered, what is offered, what is refused."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.errors import CheckpointError, PenstockError
from penstock.spark.source.adapter import AdapterReader, Handoff, MicroBatch


class Putting(threading.Thread):
    """Spark's side: offers a batch and waits for the answer."""

    def __init__(self, handoff: Handoff, number: int) -> None:
        super().__init__(daemon=True)
        self.batch, self.error = MicroBatch(None, number, partitions=3), None
        self._handoff = handoff
        self.start()
        while handoff.batch is None and self.is_alive():
            pass

    def run(self) -> None:
        try:
            self._handoff.put(self.batch)
        except PenstockError as error:
            self.error = error


@pytest.fixture
def handoff() -> Handoff:
    handoff = Handoff()
    handoff.query = SimpleNamespace(id="one", isActive=True, exception=lambda: None)  # type: ignore[assignment]
    return handoff


def reader(handoff: Handoff) -> AdapterReader:
    connector: Any = SimpleNamespace(handoff=handoff, bounded=False)
    return AdapterReader(connector)


def test_a_new_batch_is_offered_and_answered_once_it_is_committed(handoff: Handoff) -> None:
    putting = Putting(handoff, 5)
    offer = reader(handoff).offer({"query": "one", "batch": 4}, 10)
    assert len(offer.splits) == 3
    assert offer.progress == {"query": "one", "batch": 5}
    assert putting.is_alive()
    reader(handoff).committed(offer.progress)
    putting.join(10)
    assert not putting.is_alive()
    assert putting.error is None


def test_a_batch_whose_commit_spark_did_not_hear_of_is_answered_and_not_taken_in_again(handoff: Handoff) -> None:
    putting = Putting(handoff, 4)
    offer = reader(handoff).offer({"query": "one", "batch": 4}, 10)
    assert (offer.splits, offer.progress) == ((), {"query": "one", "batch": 4})
    putting.join(10)
    assert not putting.is_alive()
    assert putting.error is None


def test_a_batch_of_another_streaming_query_is_neither_offered_nor_answered(handoff: Handoff) -> None:
    putting = Putting(handoff, 0)
    with pytest.raises(CheckpointError, match="another streaming query"):
        reader(handoff).offer({"query": "another", "batch": 4}, 10)
    assert putting.is_alive()
    handoff.close()
    putting.join(10)


def test_a_batch_that_a_stopped_run_did_not_commit_is_an_error_for_spark(handoff: Handoff) -> None:
    putting = Putting(handoff, 1)
    handoff.close()
    putting.join(10)
    assert "not committed" in str(putting.error)
    late = Putting(handoff, 2)
    late.join(10)
    assert "not committed" in str(late.error)
