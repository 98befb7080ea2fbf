"""The queries with much state, with little of it: they run to the end and give the batch answer."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from penstock_bench.large_queries import BandJoin, LargeQuery, ManyGroups, ThreeWayJoin
from penstock_bench.large_state import is_exact, run

ASKED = Namespace(
    one_group=False, sites=2, memory="20MB", deadline="1s", buffer_rows=100_000, master="inline"
)  # fmt: skip


@pytest.mark.parametrize(
    "query",
    [BandJoin(500, 20), BandJoin(2_000, 20, within=500), ThreeWayJoin(400, 20), ManyGroups(1 << 10)],
    ids=lambda query: type(query).__name__,
)
def test_a_query_with_much_state_gives_the_batch_answer(query: LargeQuery, tmp_path: Path) -> None:
    outcome = run(query, tmp_path, ASKED)
    assert outcome.exact
    assert (outcome.rows, outcome.results > 50) == (query.rows * len(query.streams), True)
    assert outcome.worker_memory >= outcome.idle_worker > 0


def test_a_wrong_row_is_found(tmp_path: Path) -> None:
    """Also if every column has the right values, in other rows."""
    query = BandJoin(500, 20)
    run(query, tmp_path, ASKED)
    file = max((tmp_path / "out").glob("*.parquet"), key=lambda file: file.stat().st_size)
    rows = pq.read_table(file)
    texts = rows.column("a").to_pylist()
    pq.write_table(rows.set_column(1, "a", [[texts[-1], *texts[:-1]]]), file)
    assert not is_exact(query, tmp_path)
