"""Rows on their way to sites: each site gets its share, and a row that is needed in many cells travels once."""

from __future__ import annotations

from random import Random

import pyarrow as pa
import pytest

from penstock.engine.task.exchange.deliver import are_scattered, blobs_for_sites, together, travelling
from penstock.engine.wire.blob import Header
from penstock.operators.arrange import hashes_of
from penstock.operators.band_join.join import BandJoin
from penstock.operators.bands import Band
from penstock.operators.theta_join.join import GridJoin
from penstock.operators.window.aggregate import Measure, WindowAggregate
from penstock.operators.window.windows import Window
from penstock.plan.program import Subquery
from penstock.state.directory import Directory, uniform
from penstock.state.hash_ranges import SiteOrder, point
from penstock.state.hot_keys import Cells
from penstock.state.runs import TIME

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
        home, sent = directory.ranges_of(message.to.site), message.content.rows  # type: ignore[union-attr]
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
    assert [message.to.site for message in messages] == list(range(sites))
    for message in messages:
        home, sent = directory.ranges_of(message.to.site), message.content.rows  # type: ignore[union-attr]
        wanted = pa.concat_tables([rows.slice(0, 0), *(rows[part.rows(hashes_of(rows))] for part in home)])
        assert (rows.slice(0, 0) if sent is None else sent).equals(wanted)


@pytest.mark.parametrize("groups", [1, 1024])
@pytest.mark.parametrize("port", [0, 1])
def test_rows_of_spread_hashes_go_to_their_cells_however_scattered_the_groups_are(
    port: int, groups: int, random: Random
) -> None:
    """Of the cut port, which is the first, each to one; of the other, each to all."""
    join = BandJoin("inner", SCHEMAS, (("v0",), ("v1",)), ("ts0", "ts1"), (("ts0", "v0"), ("ts1", "v1")), ())
    columns = {f"ts{port}": range(ROWS), f"v{port}": [n % 20 for n in range(ROWS)]}
    rows = join.prepare(port, pa.table(columns, schema=SCHEMAS[port]))
    hashes, names = hashes_of(rows), uniform(1, groups).groups
    directory = Directory(5, names, tuple(random.randrange(5) for _ in names))
    spread = random.sample(sorted(set(hashes.tolist())), 4)
    for hash_ in [*spread, 0, 17, 2**64 - 1]:  # also some that no row has
        directory = directory.spread_over(Cells(hash_, 0, tuple(random.sample(range(5), random.randint(2, 5)))))
    dealt: list[int] = []
    for message in blobs_for_sites(rows, directory, Subquery(0, join, ()), Header("p", "a", port=port)):
        sent = rows.slice(0, 0) if message.content.rows is None else message.content.rows  # type: ignore[union-attr]
        assert sorted(hashes_of(sent).tolist()) == hashes_of(sent).tolist()
        for part in directory.home_ranges_of(message.to.site):
            assert sent[part.rows(hashes_of(sent))].equals(rows[part.rows(hashes)])
        others = [sent[point(hash_).rows(hashes_of(sent))] for hash_ in spread]
        in_groups = sum(len(hashes[part.rows(hashes)]) for part in directory.home_ranges_of(message.to.site))
        assert sent.num_rows == in_groups + sum(table.num_rows for table in others)
        for hash_, table in zip(spread, others, strict=True):
            here = message.to.site in directory.cells_at(hash_).sites  # type: ignore[union-attr]
            if port == 1 or not here:
                assert table.equals(rows[point(hash_).rows(hashes)].slice(0, None if here else 0))
            dealt += table.column(TIME).to_pylist()
    if port == 0:
        assert sorted(dealt) == sorted(t for h in spread for t in rows[point(h).rows(hashes)].column(TIME).to_pylist())


@pytest.mark.parametrize("times", [1, 3])
def test_partials_in_the_order_of_sites_are_those_in_the_order_of_hashes(times: int, random: Random) -> None:
    schema = pa.schema([("ts", pa.int64()), ("k", pa.int64())])
    counts = WindowAggregate(("k",), Window("ts", 10, 10), (Measure("n", "count", None),), schema)
    tables = [pa.table({"ts": range(ROWS), "k": [n * n % 41 for n in range(ROWS)]}, schema=schema)] * times
    names, subquery, header = uniform(1, 256).groups, Subquery(0, counts, ()), Header("p", "a")
    directory = Directory(3, names, tuple(random.randrange(3) for _ in names))
    order = directory.site_order

    def sent(how: SiteOrder | None) -> list[pa.Table]:
        rows = together(subquery, 0, [travelling(subquery, 0, table, how) for table in tables], how)
        messages = blobs_for_sites(rows, directory, subquery, header, how)
        return [message.content.rows for message in messages]  # type: ignore[union-attr]

    assert order is not None
    assert are_scattered(directory)
    assert [rows.combine_chunks() for rows in sent(order)] == [rows.combine_chunks() for rows in sent(None)]
