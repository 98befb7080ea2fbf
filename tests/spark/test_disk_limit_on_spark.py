"""On Spark: an epoch that does not fit on the disk is planned again with other splits, also if the next ones were being
read ahead, and the answer is exact."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark import SparkContext

import penstock as ps
from penstock.balance.intake.disk import DiskBudget
from penstock.events import EpochDropped, Event
from penstock.testing import assert_same_rows, batch_answer

pytestmark = pytest.mark.spark
ROWS, LIMIT = 4_000, 150_000


def test_an_epoch_that_does_not_fit_is_planned_again(
    spark: SparkContext, tmp_path: Path, random: Random, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(DiskBudget, "spare", lambda budget, rows: 1.0)  # without back-pressure that prevents it
    times, texts = sorted(random.randrange(10_000) for _ in range(ROWS)), [random.randbytes(20) for _ in range(ROWS)]
    rows = pa.table({"ts": times, "text": [text.hex() for text in texts]})
    pq.write_table(rows, tmp_path / "rows.parquet", row_group_size=50)
    source = ps.read.files(str(tmp_path / "rows.parquet"), time="ts", progress=ps.slack(10), name="rows")
    query, told = source.group_by("text").window(ps.tumbling(1_000)).agg(n=ps.count()), list[Event]()
    run = query.to.memory().start(
        str(tmp_path / "ck"), master="local[2,4]", rows_per_epoch=2_000, disk=LIMIT, on_event=told.append
    )
    assert_same_rows(run.wait().result(), batch_answer(query, {"rows": rows}))
    assert any(isinstance(event, EpochDropped) and "`disk`" in event.reason for event in told)
    assert 0 < run.progress.disk_bytes <= LIMIT
