"""The kit for users: any way to run a query gives the batch answer, and a query that does not is found."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock as ps
from penstock import testing
from penstock.errors import SourceError
from penstock.testing import assert_exact, assert_same_rows, batch_answer, cut, disordered

SECOND = 1_000_000
ROWS = pa.table({"at": pa.array([n * SECOND for n in range(60)], pa.timestamp("us")), "k": [n % 3 for n in range(60)]})


def arriving(random: Random, slack: int = 5) -> ps.Stream:
    """Rows that come up to five seconds late, read with some slack."""
    batches = cut(random, disordered(random, ROWS, 5 * SECOND, time="at"))
    return ps.read.batches(batches, time="at", progress=ps.slack(f"{slack}s"), one_batch_per_offer=True, name="rows")


def counted(rows: ps.Stream) -> ps.Stream:
    return rows.group_by("k").window(ps.tumbling("10s")).agg(n=ps.count())


def test_an_exact_query_passes_and_its_answer_is_that_of_all_rows(random: Random) -> None:
    query = counted(arriving(random))
    assert_exact(query, seed=random.random(), runs=5)
    assert sum(batch_answer(query).column("n").to_pylist()) == ROWS.num_rows
    assert_same_rows(batch_answer(query), batch_answer(query.node, {"rows": ROWS}))


def test_a_query_that_depends_on_how_it_is_run_is_found(random: Random) -> None:
    def number(rows: pa.Table) -> pa.Table:
        """Number the rows of a batch: another result for every way to cut the input."""
        return rows.append_column("place", pa.array(range(rows.num_rows), pa.int64()))

    query = arriving(random).map_batches(number, schema={"at": "TIMESTAMP", "k": "BIGINT", "place": "BIGINT"})
    with pytest.raises(AssertionError, match=r"seed 7, run \d+: \(Way\(sites="):
        assert_exact(query, seed=7)


def test_rows_that_come_later_than_their_source_allows_are_told() -> None:
    backwards = [ROWS.slice(30), ROWS.slice(0, 30)]
    rows = ps.read.batches(backwards, time="at", progress=ps.slack("1s"), one_batch_per_offer=True)
    with pytest.raises(AssertionError, match=r"30 rows came late.*larger slack"):
        assert_exact(counted(rows), runs=1)


def test_the_rows_of_files_are_given_by_the_name_of_their_source(tmp_path: Path) -> None:
    pq.write_table(ROWS, tmp_path / "rows.parquet")
    query = counted(ps.read.files(str(tmp_path), time="at", name="calls"))
    with pytest.raises(SourceError, match="the rows of the source `calls` are not in memory"):
        assert_exact(query)
    assert_exact(query, {"calls": ROWS}, runs=3)


def test_the_kit_is_small_and_all_of_it_is_described() -> None:
    page = (Path(__file__).parents[2] / "docs" / "how-to" / "test-a-query.md").read_text(encoding="utf-8")
    for text in (testing.__doc__ or "", page):
        assert {name for name in testing.__all__ if name not in text} == set()
    assert len(list(Path(testing.__file__).parent.rglob("*.py"))) <= 13
