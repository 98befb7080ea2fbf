"""The merger that lets rows through as they arrive, and the one that puts them in order of time (`order="in"`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pytest
from epoch_bench import Bench
from small_streams import answer, stream

import penstock as ps
from penstock.api.streams import Stream
from penstock.engine.task.site.merge import Held, release
from penstock.engine.task.site.storing import Storage
from penstock.errors import CheckpointError
from penstock.operators.arrange import times_of
from penstock.progress.mark import END, at
from penstock.state.model import SiteState
from penstock.state.runs import HASH, TIME
from penstock.testing import assert_same_rows
from penstock.testing.ways import Way
from penstock.types import time_values
from tests.support.amounts import some_of
from tests.support.crashes import (
    Place,
    another_way,
    assert_exact,
    finish,
    launch,
    newest_manifest,
    operator_scenario,
    published,
)
from tests.support.queries.data import SECOND
from tests.support.queries.operators import OperatorQuery, operator_queries

QUERIES = operator_queries(SECOND)


# -- the example of StreamCloud, figures 4 and 5 -----------------------------------------------------------------------

SPAN = 3
MOMENTS = {"0": 0, "A": 1, "1": 2, "B": 3, "C": 4, "2": 5, "D": 6, "3": 7}
PAIRS = {"0A", "0B", "1A", "1B", "1C", "2B", "2C", "2D", "3C", "3D"}  # what a system that is not parallel gives
SCHEMA = pa.schema([("ts", pa.int64()), ("name", pa.string())])
JOINED = pa.schema([("ts", pa.int64()), ("pair", pa.string())])


@dataclass
class PaperJoin:
    """The Cartesian product of the paper, as a Python function: a row trims the window of the other stream and meets
    what is left, so it is right only for rows in order of time. `steps` is the order in which rows came."""

    windows: dict[bool, list[str]] = field(default_factory=lambda: {True: [], False: []})
    steps: list[str] = field(default_factory=list)

    def join(self, rows: pa.Table) -> pa.Table:
        pairs = [pair for name in rows["name"].to_pylist() for pair in self._arrived(name)]
        return pa.table([[max(MOMENTS[name] for name in pair) for pair in pairs], pairs], schema=JOINED)

    def _arrived(self, name: str) -> list[str]:
        self.steps.append(name)
        is_number = name.isdigit()
        self.windows[is_number].append(name)
        others = [other for other in self.windows[not is_number] if MOMENTS[name] - MOMENTS[other] <= SPAN]
        self.windows[not is_number] = others
        return [min(name, other) + max(name, other) for other in others]


def figure_4(producers: dict[str, str], name: str) -> Stream:
    """A stream that two nodes produce, each in order of time, and that comes as written: one batch an epoch."""
    batches = [pa.table([[MOMENTS[row] for row in batch], list(batch)], schema=SCHEMA) for batch in producers]
    nodes = tuple(producers.values())
    return ps.read.batches(batches, time="ts", progress=ps.ordered(), name=name, substreams=nodes)


def numbers_and_letters() -> tuple[Stream, Stream]:
    """D comes before B, which another node produces. The last, empty batch keeps the streams open behind them."""
    numbers = {"0": "node 0", "1": "node 1", "2": "node 0", "3": "node 1", "": "node 0"}
    letters = {"A": "node 0", "C": "node 1", "D": "node 1", "B": "node 0", "": "node 1"}
    return figure_4(numbers, "numbers"), figure_4(letters, "letters")


def through_the_papers_join(order: str, folder: Path) -> tuple[set[str], PaperJoin]:
    join, (numbers, letters) = PaperJoin(), numbers_and_letters()
    bench = Bench(numbers.union(letters).map_batches(join.join, JOINED), folder, {"order": order})
    bench.finish()
    assert bench.late == 0
    return set(bench.result["pair"].to_pylist()), join


def test_figure_5_a_best_effort_merger_loses_a_pair_and_the_transparent_one_does_not(tmp_path: Path) -> None:
    best_effort, join = through_the_papers_join("any", tmp_path / "any")
    assert join.steps.index("1") < join.steps.index("D") < join.steps.index("B")
    assert best_effort == PAIRS - {"0B", "1B"} | {"3B"}  # 3 came when B was not there yet, and was not trimmed
    transparent, join = through_the_papers_join("in", tmp_path / "in")
    assert join.steps == sorted(MOMENTS, key=MOMENTS.__getitem__)
    assert transparent == PAIRS


@pytest.mark.parametrize("order", ["any", "in"])
@pytest.mark.parametrize("sites", [1, 4, 7])
def test_figure_4_a_join_that_needs_no_order_is_right_with_either_merger(
    order: str, sites: int, tmp_path: Path
) -> None:
    numbers, letters = numbers_and_letters()
    query = numbers.theta_join(letters, ps.lit(True), within=SPAN)
    bench = Bench(query, tmp_path, {"order": order, "sites": sites, "grid": "2x2"})
    bench.finish()
    assert {row["name"] + row["right_name"] for row in bench.result.to_pylist()} == PAIRS
    assert_same_rows(bench.result, answer(query))


def test_figure_5b_a_merger_lets_through_what_no_producer_can_come_before(tmp_path: Path) -> None:
    join, (numbers, letters) = PaperJoin(), numbers_and_letters()
    bench = Bench(numbers.union(letters).map_batches(join.join, JOINED), tmp_path, {"order": "in"})
    seen = []
    for _ in range(4):
        bench.step()
        seen.append("".join(join.steps))
    # the slower nodes have come to: 0 and 1; 0 and 1; 2 and 1; 5 and 3
    assert seen == ["", "", "0", "0A1"]
    bench.finish()
    assert "".join(join.steps) == "0A1BC2D3"


# -- the order itself --------------------------------------------------------------------------------------------------


@dataclass
class Recorder:
    """A function that passes rows on and notes their times."""

    time: str
    times: list[int] = field(default_factory=list)

    def record(self, rows: pa.Table) -> pa.Table:
        self.times += time_values(rows.column(self.time)).tolist()
        return rows


def is_sorted(times: list[int]) -> bool:
    return all(a <= b for a, b in pairwise(times))


@pytest.mark.parametrize(
    "function", some_of([True, False], 2), ids=lambda with_it: "with a function" if with_it else "without"
)
@pytest.mark.parametrize("name", QUERIES)
def test_in_order_mode_is_exact_and_functions_and_sink_see_rows_in_order(
    name: str, function: bool, random: Random, place: Place, way: Way
) -> None:
    """Through restarts on other sites: rows that are held back keep their order."""
    recorder = Recorder("")

    def recorded(a: Stream, b: Stream) -> Stream:
        query = QUERIES[name](a, b)
        recorder.time = next(iter(query.times), "")
        return query.map_batches(recorder.record, query.schema) if function and query.times else query

    scenario, held = operator_scenario(random, recorded, order="in"), 0
    while launch(scenario, place, way, until=f"{random.randint(1, 3)} epochs").wait().progress.state != "finished":
        held += any(s.all_slices() for state in newest_manifest(place.checkpoint).subqueries for s in state.sites)
        way = another_way(random, way)
    assert held
    rows = published(place.results, scenario.stream.schema)
    if recorder.time:
        times = time_values(rows.column(recorder.time)).tolist()
        assert is_sorted(times)
        assert recorder.times == (times if function else [])
    assert_exact(scenario, place, f"{way}\n{scenario.stream.explain()}")


def test_by_default_rows_do_not_wait_for_an_order(tmp_path: Path) -> None:
    """So that the test above is known to be about something."""
    recorder = Recorder("ts")
    source = stream("a", [(5, 1), (1, 1)], [(3, 1)], slack=10)
    bench = Bench(source.map_batches(recorder.record, source.schema), tmp_path)
    bench.finish()
    assert recorder.times == [5, 1, 3]


FUNCTIONS: dict[str, Callable[[Stream, Stream, Recorder], Stream]] = {
    "before an aggregate": lambda a, b, f: (
        a.map_batches(f.record, a.schema).group_by("k").window(ps.tumbling("4s")).agg(n=ps.count())
    ),
    "before one input of a join": lambda a, b, f: a.map_batches(f.record, a.schema).join(
        b, "k", within="1s", kind="left"
    ),
    "behind a union": lambda a, b, f: a.union(b).map_batches(f.record, a.schema).select("ts", "k").distinct(),
}


@pytest.mark.parametrize("place_of_function", FUNCTIONS)
@pytest.mark.parametrize("case", range(3))
def test_a_function_inside_a_query_sees_rows_in_order(
    place_of_function: str, case: int, random: Random, place: Place, way: Way
) -> None:
    recorder = Recorder("ts")

    def query(a: Stream, b: Stream) -> Stream:
        return FUNCTIONS[place_of_function](a, b, recorder)

    scenario = operator_scenario(random, query, order="in")
    finish(scenario, place, way)
    seen = list(recorder.times)  # the batch answer calls the function as well
    assert seen
    assert is_sorted(seen)
    assert_exact(scenario, place, str(way))


# -- heartbeats --------------------------------------------------------------------------------------------------------

SILENT: dict[str, OperatorQuery] = {
    "a source whose rows are filtered away": lambda a, b: a.union(b.where(ps.lit(False))),
    "sites that have no rows": lambda a, b: a.distinct().union(b.where(ps.lit(False)).distinct()),
    "a join that has no pairs": lambda a, b: a.union(a.join(b, "k", within=0, kind="semi")),
}


@pytest.mark.parametrize("silent", SILENT)
def test_held_rows_are_released_by_the_heartbeats_of_a_producer_without_rows(silent: str, tmp_path: Path) -> None:
    a = stream("a", [(5, 1), (30, 1)], [(31, 1)], [(32, 1)], [(90, 1)])
    b = stream("b", [(0, 2)], [(6, 2)], [(31, 2)], [(90, 2)])
    recorder = Recorder("ts")
    query = SILENT[silent](a, b)
    bench, seen = Bench(query.map_batches(recorder.record, query.schema), tmp_path, {"order": "in", "sites": 7}), []
    for _ in range(3):
        bench.step()
        seen.append(list(recorder.times))
    assert seen == [[], [5], [5, 30]]
    bench.finish()
    assert recorder.times == [5, 30, 31, 32, 90]


def test_rescaling_does_not_release_rows_early_or_twice(tmp_path: Path) -> None:
    recorder = Recorder("ts")
    a = stream("a", [(5, 1), (30, 2), (30, 3)], [(31, 1)], [(32, 1)], [(60, 4)])
    b = stream("b", [(0, 2)], [(30, 2)], [(30, 2), (31, 2)], [(60, 4)])
    joined = a.join(b, "k", within=1, kind="left")
    bench = Bench(joined.map_batches(recorder.record, joined.schema), tmp_path, {"order": "in", "sites": 1})
    for sites in (7, 2, 5):
        bench.step()
        assert any(site.held for state in bench.loop.manifest.subqueries for site in state.sites)
        bench.settings = {"order": "in", "sites": sites}
        bench.restart()
    bench.finish()
    assert recorder.times == [5, 30, 30, 30, 30, 31, 32, 60]


@pytest.mark.parametrize(("before", "after"), [("any", "in"), ("in", "any")])
def test_a_checkpoint_stays_with_its_merger(before: str, after: str, tmp_path: Path) -> None:
    """What one merger holds back the other would not know of."""
    a = stream("a", [(5, 1)], [(30, 1)], [(60, 1)])
    bench = Bench(a.distinct(), tmp_path, {"order": before})
    bench.step(2)
    bench.settings = {"order": after}
    with pytest.raises(CheckpointError, match="another query"):
        bench.restart()
    bench.loop.checkpoint.close()


# -- the merger by itself ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", range(10))
def test_every_row_is_let_through_once_as_soon_as_the_mark_has_passed_it(
    case: int, random: Random, tmp_path: Path
) -> None:
    state, through, arrived = SiteState((), ()), list[int](), list[int]()
    mark = 0
    for epoch in range(12):
        fresh = [random.randrange(mark, mark + 30) for _ in range(random.randrange(6))]
        mark += random.choice([0, 1, 10])
        upto = at(mark) if epoch < 11 else END
        given = [_arranged(random, fresh)] if fresh else []
        (tables,), held = release(Storage(tmp_path, epoch, "s"), state, [given], upto, lambda: True)
        through += [time for rows in tables for time in times_of(rows).tolist()]
        arrived += fresh
        assert sorted(through) == sorted(t for t in arrived if upto.ended or t < mark)
        state = SiteState((), (), (), held.slices, held.released)
    assert held == Held((), END)


def _arranged(random: Random, times: list[int]) -> pa.Table:
    rows = sorted((random.randrange(4), time) for time in times)
    hashes = np.array([h for h, _ in rows], dtype=np.uint64)
    return pa.table({HASH: hashes, TIME: np.array([t for _, t in rows], dtype=np.int64)})
