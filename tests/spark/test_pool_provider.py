"""A pool on Spark: it stays from epoch to epoch, and steps aside while another job wants the cores."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark import SparkContext

import penstock as ps
from penstock.events import EpochCommitted, EpochTimed, Event
from penstock.spark.choice import pool_provider_of

pytestmark = pytest.mark.spark
ROWS = 40_000


def test_a_pool_stays_and_releases_its_cores_for_other_jobs(
    spark: SparkContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider, events, pools = pool_provider_of(spark), list[Event](), list[bool]()
    monkeypatch.setattr(provider, "_no_pool_until", 0.0)  # the test before may just have wanted the cores

    def hear(event: Event) -> None:
        events.append(event)
        if isinstance(event, EpochCommitted):
            pools.append(provider._pool is not None)
            if event.epoch == 5:  # with all cores held, it would never end
                assert spark.parallelize(range(100), 2).map(lambda n: n * 2).sum() == 9900

    calls = ps.read.calls(rows=ROWS, split_rows=2_000, progress=ps.slack("1s"))
    query = calls.group_by("district").window(ps.tumbling("100ms")).agg(n=ps.count()).to.files(str(tmp_path / "out"))
    query.start(str(tmp_path / "ck"), master="local[2,4]", rows_per_epoch=4_000, on_event=hear).wait()
    early = [event for event in events if isinstance(event, EpochTimed) and event.epoch <= 5]
    assert len({task.worker for event in early for task in event.tasks}) == 2, "workers change between epochs"
    assert pools[:6] == [True] * 5 + [False]  # the sixth epoch was a job of Spark
    assert sum(pq.read_table(tmp_path / "out").column("n").to_pylist()) == ROWS
