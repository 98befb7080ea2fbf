"""A crew on Spark: it stays from epoch to epoch, and steps aside while another job wants the cores."""

from __future__ import annotations

import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark import SparkContext

import penstock as ps
from penstock.events import EpochTimed, Event
from penstock.runtime.quarters import quarters_of

pytestmark = pytest.mark.spark


def _wait_for_epochs(run: ps.Run, count: int) -> None:
    wanted = run.progress.epochs + count
    while run.progress.epochs < wanted:
        assert run.running, run.wait()
        time.sleep(0.01)


def test_a_crew_stays_and_steps_aside_for_other_jobs(spark: SparkContext, tmp_path: Path) -> None:
    calls = ps.read.calls(rows=60_000, rate=20_000, realtime=True, progress=ps.slack("1s"))
    query = calls.group_by("district").window(ps.tumbling("1s")).agg(n=ps.count()).to.files(str(tmp_path / "out"))
    events: list[Event] = []
    run = query.start(str(tmp_path / "ck"), master="local[2,4]", on_event=events.append)
    _wait_for_epochs(run, 5)
    workers = {task.worker for event in events if isinstance(event, EpochTimed) for task in event.tasks}
    assert len(workers) == 2, "members change from epoch to epoch"
    assert quarters_of(spark)._crew is not None
    assert spark.parallelize(range(100), 2).map(lambda n: n * 2).sum() == 9900  # with all cores held, it would hang
    assert quarters_of(spark)._crew is None
    _wait_for_epochs(run, 2)  # as jobs of Spark, side by side with others
    run.wait()
    found = pq.read_table(tmp_path / "out")
    assert sum(found.column("n").to_pylist()) == 60_000
