"""Rows on their way to sites: each site gets its share, and a row that is needed in many cells travels once."""

from __future__ import annotations

import pyarrow as pa
import pytest

from penstock.engine.blob import Header
from penstock.engine.deliver import blobs_for_sites
from penstock.operators.arrange import hashes_of
from penstock.operators.bands import Band
from penstock.operators.theta import GridJoin
from penstock.plan.program import Subquery
from penstock.state.directory import uniform

SCHEMAS = tuple(pa.schema([(f"ts{n}", pa.int64()), (f"v{n}", pa.int64())]) for n in range(2))
ROWS = 200


@pytest.mark.parametrize("grid", [(1, 1), (2, 2), (3, 5), (4, 4)])
@pytest.mark.parametrize("sites", [1, 2, 3, 7])
@pytest.mark.parametrize("port", [0, 1])
def test_a_row_of_a_theta_join_travels_once_per_site(port: int, sites: int, grid: tuple[int, int]) -> None:
    join = GridJoin(SCHEMAS, ("ts0", "ts1"), (("v0",), ("v1",)), (Band(0, 1, 5, 5),), None, grid)
    rows = pa.table({f"ts{port}": range(ROWS), f"v{port}": range(ROWS)}, schema=SCHEMAS[port])
    spread = join.prepare(port, rows)
    directory = uniform(sites, 4)
    messages = blobs_for_sites(spread, directory, Subquery(0, join, ()), Header("p", "a", port=port))
    received = []
    for message in messages:
        home, sent = directory.ranges_of(message.site), message.content.rows  # type: ignore[union-attr]
        if sent is not None:
            values = sent.column(f"v{port}").to_pylist()
            assert len(values) == len(set(values)), "a row travelled twice to one site"
            received.append(join.received(port, sent, home))
    together = pa.concat_tables(received)
    assert sorted(hashes_of(together).tolist()) == hashes_of(spread).tolist()
    assert together.sort_by([("#hash", "ascending"), ("#time", "ascending")]).equals(spread.combine_chunks())
