"""No more rows than `buffer_rows` are ever left to wait at a site, whatever the deadline and the number of items."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from small_streams import answer

import penstock as ps
from penstock.api.streams import Stream
from penstock.checkpoint.store import Checkpoint
from penstock.engine.driver.executor import InlineExecutor
from penstock.engine.driver.loop import EpochLoop, Outcome
from penstock.engine.driver.recovery import recover
from penstock.plan.compile.subqueries import compile_query
from penstock.plan.options import CompileOptions
from penstock.settings import Settings
from penstock.testing.rows import assert_same_rows


def source(name: str, random: Random) -> Stream:
    times = [random.randrange(60) for _ in range(300)]
    parts = [pa.table({"ts": times[n : n + 100], name: [t % 9 for t in times[n : n + 100]]}) for n in (0, 100, 200)]
    return ps.read.batches(parts, time="ts", progress=ps.slack(60), name=name)


def joined(kind: str, random: Random) -> Stream:
    left, right = source("k", random), source("j", random)
    if kind == "theta":
        return left.theta_join(right, ps.col("k") < ps.col("j"), within=3)
    return left.join(right, on=[("k", "j")], within=3)


@pytest.mark.parametrize(("kind", "rows"), [("keyed", 40), ("theta", 150)])
def test_a_buffer_is_never_overfull(kind: str, rows: int, random: Random, tmp_path: Path) -> None:
    query = joined(kind, random)
    ready = query.to.files(str(tmp_path / "out"))
    settings = Settings(items=1, item_rows=1, buffer_rows=rows, sites=3, rows_per_epoch=200, grid="4x4")
    compiled = compile_query(ready.sink, CompileOptions.of(settings))
    loop = EpochLoop(recover(compiled, Checkpoint.open(tmp_path / "ck"), settings), InlineExecutor())
    waiting = [0]
    while loop.step() is not Outcome.FINISHED:
        waiting += [report.backlog for report in loop.last.reports]
    assert max(waiting) <= rows
    assert max(waiting) > 0  # one item for each epoch leaves something, as far as it may
    assert_same_rows(pq.read_table(tmp_path / "out"), answer(query))
