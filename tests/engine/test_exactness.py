"""Whatever the order of arrival, the cuts, the sites and the deadlines: the answer is the batch answer."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pyarrow as pa
import pytest

import penstock as ps
from penstock.testing import assert_same_rows, batch_answer, cut, disordered, random_way
from tests.support.amounts import random_cases
from tests.support.queries.data import MICROSECOND, SECOND, random_query, random_rows


@pytest.mark.parametrize("case", random_cases(250))
def test_any_query_run_in_any_way_gives_the_batch_answer(case: int, random: Random, tmp_path: Path) -> None:
    slack = random.choice([0, SECOND, 15 * SECOND])
    rows = disordered(random, random_rows(random), slack)
    parts, way = cut(random, rows), random_way(random)
    stream = ps.read.batches(
        parts,
        time="ts",
        progress=ps.slack(slack * MICROSECOND),
        splits_per_batch=random.choice([1, 2, 5]),
        one_batch_per_offer=random.random() < 0.7,
    )
    query = random_query(random, stream)
    run = query.to.memory().start(str(tmp_path / "ck"), master="inline", epoch="1ms", **way.settings()).wait()
    assert run.progress.state == "finished"
    assert (run.progress.rows_in, run.progress.late_rows) == (rows.num_rows, 0)
    want = batch_answer(query.node, {"batches": pa.concat_tables(parts)})
    assert_same_rows(run.result(), want, f"{way}\n{query.explain()}")
