"""Failures that systems like this one have had in joins, sessions and chains of operators, each as a test.

The letters and numbers are those of the list of known failures. Those about late rows, the limits of time and silent
sources are in `test_known_time_failures`.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from epoch_bench import Bench
from small_streams import answer, rows, stream

import penstock as ps
from penstock.api.streams import Stream
from penstock.engine.driver.loop import Outcome
from penstock.errors import QueryError
from penstock.operators.bands import Band
from penstock.plan.logical import JOINS, Join
from penstock.testing import assert_same_rows, batch_answer
from penstock.testing.ways import Way
from tests.support.crashes import (
    Place,
    Scenario,
    another_way,
    assert_exact,
    finish,
    launch,
    newest_manifest,
    operator_scenario,
    published,
)
from tests.support.queries.data import SECOND
from tests.support.queries.operators import operator_queries

QUERIES = operator_queries(SECOND)
PROBING = [name for name in QUERIES if ("join" in name and "rows" not in name) or name == "distinct"]
SLOW = Way(items=1, item_rows=1)
TYPES = {"ts": "BIGINT", "k": "BIGINT", "i": "BIGINT"}


def before(table: pa.Table, time: int) -> pa.Table:
    """The rows of a join all of whose times are before."""
    times = [table.column(name) for name in ("ts", "right_ts") if name in table.column_names]
    return table.filter(pc.less(pc.max_element_wise(*times), time))


# -- C1 to C4: outer joins ---------------------------------------------------------------------------------------------

PAIRS = {  # when the rows of a pair come
    "the left one first": ([[(0, 1)], []], [[], [(1, 1)]]),
    "the right one first": ([[], [(0, 1)]], [[(1, 1)], []]),
    "together": ([[(0, 1)], []], [[(1, 1)], []]),
}


@pytest.mark.parametrize("kind", JOINS)
@pytest.mark.parametrize("which", PAIRS)
@pytest.mark.parametrize("ahead", ["left", "right"])
def test_c1_a_row_that_matched_is_not_emitted_again_after_its_partner_expired(
    kind: str, which: str, ahead: str, tmp_path: Path
) -> None:
    """With one stream far ahead, a partner could be taken for useless while the row is not decided yet."""
    left, right = PAIRS[which]
    later = {side: [[(50 if side == ahead else 2, 5)], [(50, 5)], [(100, 5)]] for side in ("left", "right")}
    a, b = stream("a", *left, *later["left"]), stream("b", *right, *later["right"])
    query = a.join(b, "k", within=(2, 2), kind=kind)
    bench, want = Bench(query, tmp_path), answer(query)
    bench.step(2)
    assert bench.result.num_rows == (0 if kind == "anti" else 1)
    bench.step(2)
    assert_same_rows(before(bench.result, 50), before(want, 50), f"{kind}, {which}")
    bench.finish()
    assert_same_rows(bench.result, want, f"{kind}, {which}")


@pytest.mark.parametrize("kind", JOINS)
def test_c1_in_a_self_join_at_equal_times_every_row_meets_itself(kind: str, way: Way, tmp_path: Path) -> None:
    source = stream("a", [(5, 1), (5, 2)], [(5, 1), (9, 1)], [(30, 1), (30, 1)], [(90, 3)], slack=4)
    query = source.join(source, "k", within=0, kind=kind)
    bench = Bench(query, tmp_path, way.settings())
    bench.finish()
    assert_same_rows(bench.result, answer(query), f"{kind}, {way}")
    if kind in ("left", "right", "full"):
        assert not any(column.null_count for column in bench.result.columns)


@pytest.mark.parametrize("way", [Way(), SLOW], ids=["at once", "one item an epoch"])
@pytest.mark.parametrize("kind", JOINS)
def test_c2_c3_a_row_that_comes_and_expires_in_one_epoch_meets_its_partners_or_gives_its_outer_row(
    kind: str, way: Way, tmp_path: Path
) -> None:
    """Punctuation of 100 expires what lies before 98; the row at 98 can still meet one at 100."""
    left = [[(0, 1), (3, 2), (97, 3), (98, 4), (100, 9)], [(101, 9), (200, 9)]]
    right = [[(2, 1), (6, 2), (97, 5), (98, 6), (100, 8)], [(100, 4), (100, 6), (200, 8)]]
    query = stream("a", *left).join(stream("b", *right), "k", within=(2, 2), kind=kind)
    bench, want = Bench(query, tmp_path, way.settings()), answer(query)
    bench.step()
    if way is not SLOW:
        assert_same_rows(before(bench.result, 98), before(want, 98), kind)
    bench.finish()
    assert_same_rows(bench.result, want, kind)
    assert bench.late == 0


@pytest.mark.parametrize("kind", JOINS)
@pytest.mark.parametrize("side", [0, 1])
def test_c4_a_join_with_progress_on_one_side_only_cannot_be_written(kind: str, side: int) -> None:
    sides = [stream("a", [(0, 1)]), stream("b", [(0, 1)])]
    sides[side] = sides[side].select("k", "i")
    with pytest.raises(QueryError, match="needs the time of the stream"):
        sides[0].join(sides[1], "k", within=2, kind=kind)


@pytest.mark.parametrize("band", [Band(0, 1, 2, None), Band(0, 1, None, 2), Band(0, 1, None, None)])
@pytest.mark.parametrize("kind", JOINS)
def test_c4_a_band_that_is_open_on_one_side_waits_for_the_end_where_it_must(
    kind: str, band: Band, random: Random, place: Place, way: Way
) -> None:
    def opened(a: Stream, b: Stream) -> Stream:
        node = a.join(b, "k", within="2s", kind=kind).node
        assert isinstance(node, Join)
        wide = [None if span is None else span * SECOND for span in (band.before, band.after)]
        return Stream(replace(node, bands=(Band(0, 1, *wide),)))

    scenario = operator_scenario(random, opened)
    finish(scenario, place, way)
    assert_exact(scenario, place, f"{kind}, {band}, {way}")


# -- C14, C15: sessions ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bridge", range(5, 16))
@pytest.mark.parametrize("restart", [False, True])
def test_c14_c15_a_row_that_comes_later_bridges_two_sessions(bridge: int, restart: bool, tmp_path: Path) -> None:
    source = stream("a", [(0, 1), (15, 1), (15, 2)], [(bridge, 1)], [(34, 3)], [(35, 3)], [(70, 3)], slack=10)
    query = source.group_by("k").window(ps.session(10)).agg(n=ps.count(), last=ps.max("ts"))
    bench = Bench(query, tmp_path)
    bench.step()
    for sites in (7, 1) if restart else ():
        bench.settings = {"sites": sites}
        bench.restart()
    bench.step(2)
    closed = [] if 5 < bridge < 10 else [0]  # punctuation stands at 24: what reaches 15 is open until 25
    assert bench.result.column("window_start").to_pylist() == closed
    bench.step()
    assert_same_rows(bench.result, answer(query).filter(pc.field("k") < 3), f"bridge at {bridge}")
    bench.finish()
    assert_same_rows(bench.result, answer(query), f"bridge at {bridge}")
    assert bench.late == 0


@pytest.mark.parametrize("case", range(6))
def test_c14_sessions_that_merge_in_every_epoch_and_after_every_restart(
    case: int, random: Random, place: Place, way: Way
) -> None:
    times = [3 * n for n in range(40)]
    random.shuffle(times)
    batches = [[(t, t % 2) for t in times[start : start + 5]] for start in range(0, 40, 5)]
    source = stream("a", *batches, [(200, 5)], slack=200)
    scenario = Scenario(source.group_by("k").window(ps.session(7)).agg(n=ps.count(), first=ps.min("ts")))
    while launch(scenario, place, way, until="1 epochs").wait().progress.state != "finished":
        way = another_way(random, way)
    assert_exact(scenario, place, str(way))
    assert sorted(published(place.results, scenario.stream.schema).column("n").to_pylist()) == [1, 20, 20]


# -- deadlines ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PROBING)
def test_one_item_of_one_row_an_epoch_leaves_nothing_undone(name: str, tmp_path: Path) -> None:
    a, b = (stream(n, *([(t + 9 * e, t) for t in range(9)] for e in range(4)), slack=3) for n in "ab")
    query = operator_queries(1)[name](a, b)
    cells = {"sites": 1, "grid": "2x2"}  # one site would have one cell, and a cell is never worked on in parts
    bench, waited = Bench(query, tmp_path, {**SLOW.settings(), **cells}), 0
    while not bench.loop.manifest.finished:
        bench.step()
        waited += any(site.pending for state in bench.loop.manifest.subqueries for site in state.sites)
    assert waited > 4
    assert_same_rows(bench.result, answer(query), name)
    assert not any(site.all_slices() for s in newest_manifest(tmp_path / "ck").subqueries for site in s.sites)


def test_pending_rows_are_worked_off_while_sources_are_silent_and_no_mark_moves(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    source = ps.read.files(str(folder), time="ts", progress=ps.slack(200), schema=TYPES, follow=True)
    bench = Bench(source.join(source, "k", within=2), tmp_path, {**SLOW.settings(), "sites": 1})
    parts = [rows([(100, key) for key in range(5)]), rows([(99, key) for key in range(5)])]
    for number, part in enumerate(parts):
        pq.write_table(part, folder / f"{number}.parquet")
        while bench.loop.step() is not Outcome.IDLE:
            pass
    assert not any(site.pending for state in bench.loop.manifest.subqueries for site in state.sites)
    assert not bench.loop.manifest.finished
    assert_same_rows(bench.result, batch_answer(bench.stream.node, {"files": pa.concat_tables(parts)}))
