"""Late means late: a row below the punctuation of earlier epochs is delivered to the late output, and nowhere else."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pyarrow as pa
import pytest

import penstock as ps
from penstock.testing import Way, assert_same_rows, batch_answer
from penstock.testing.queries import SECOND, cut, random_query, random_rows


def expected_split(parts: list[pa.Table], slack: int) -> tuple[pa.Table, pa.Table]:
    """(on time, late): each batch is judged by the largest time of the batches before it, and by nothing else."""
    on_time, late, largest = [], [], None
    for part in parts:
        times = part.column("ts").cast(pa.int64()).to_pylist()
        is_late = pa.array([largest is not None and t < largest - slack for t in times], pa.bool_())
        late.append(part.filter(is_late))
        on_time.append(part.filter(pa.compute.invert(is_late)))
        largest = max([*times, *([] if largest is None else [largest])], default=None)
    return pa.concat_tables(on_time), pa.concat_tables(late)


@pytest.mark.parametrize("case", range(40))
def test_late_rows_are_delivered_whole_and_left_out_of_the_answer(
    case: int, random: Random, way: Way, tmp_path: Path
) -> None:
    rows = random_rows(random)
    shuffled = rows.take(random.sample(range(rows.num_rows), rows.num_rows)) if rows.num_rows else rows
    parts, slack = cut(random, shuffled), random.choice([0, 5 * SECOND, 30 * SECOND])
    stream = ps.read.batches(parts, time="ts", progress=ps.slack(slack), one_batch_per_offer=True)
    query = random_query(random, stream)
    run = query.to.memory().start(str(tmp_path / "ck"), master="inline", epoch="1ms", **way.settings()).wait()
    on_time, late = expected_split(parts, slack)
    assert_same_rows(run.late, late, f"late rows, {way}")
    assert run.progress.late_rows == late.num_rows
    assert_same_rows(run.result(), batch_answer(query.node, {"batches": on_time}), f"{way}\n{query.explain()}")


def test_rows_that_arrive_together_never_make_each_other_late(tmp_path: Path) -> None:
    rows = pa.table({"ts": pa.array([100 * SECOND, 0], pa.timestamp("us")), "k": [1, 1]})
    stream = ps.read.table(rows, time="ts", progress=ps.ordered())
    run = stream.window(ps.tumbling("10s")).agg(n=ps.count()).to.memory().start(master="inline").wait()
    assert run.progress.late_rows == 0
    assert sorted(run.result().column("n").to_pylist()) == [1, 1]


def test_a_late_row_of_a_window_that_is_still_open_is_late_all_the_same(tmp_path: Path) -> None:
    def batch(*seconds: int) -> pa.Table:
        return pa.table({"ts": pa.array([s * SECOND for s in seconds], pa.timestamp("us"))})

    stream = ps.read.batches([batch(1, 5), batch(3), batch(9)], time="ts", one_batch_per_offer=True)
    run = stream.window(ps.tumbling("10s")).agg(n=ps.count()).to.memory().start(master="inline", epoch="1ms").wait()
    assert run.late.column("ts").cast(pa.int64()).to_pylist() == [3 * SECOND]
    assert run.result().column("n").to_pylist() == [3]
