"""Rows on their way to sites: each site gets its share, and a row that is needed in many cells travels once."""

from __future__ import annotations

from random import Random

import pyarrow as pa
import pytest

from penstock.engine.blob import Header
from penstock.engine.deliver import blobs_for_sites
from penstock.operators.arrange import hashes_of
from penstock.operators.bands import Band
from penstock.operators.join import BandJoin
from penstock.operators.theta import GridJoin
from penstock.plan.program import Subquery
from penstock.state.directory import Directory, uniform

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


@pytest.mark.parametrize("groups", [1, 16, 1024])
@pytest.mark.parametrize("sites", [1, 3, 300])
def test_each_row_goes_to_the_home_of_its_hash_however_scattered_the_groups_are(
    sites: int, groups: int, random: Random
) -> None:
    join = BandJoin("inner", SCHEMAS, (("v0",), ("v1",)), ("ts0", "ts1"), (("ts0", "v0"), ("ts1", "v1")), ())
    rows = join.prepare(0, pa.table({"ts0": range(ROWS), "v0": range(ROWS)}, schema=SCHEMAS[0]))
    names = uniform(1, groups).groups
    directory = Directory(sites, names, tuple(random.randrange(sites) for _ in names))
    messages = list(blobs_for_sites(rows, directory, Subquery(0, join, ()), Header("p", "a")))
    assert [message.site for message in messages] == list(range(sites))
    for message in messages:
        home, sent = directory.ranges_of(message.site), message.content.rows  # type: ignore[union-attr]
        wanted = pa.concat_tables([rows.slice(0, 0), *(rows[part.rows(hashes_of(rows))] for part in home)])
        assert (rows.slice(0, 0) if sent is None else sent).equals(wanted)
