"""Failures that systems like this one have had with late rows, with times at the limits, and with sources that fall
silent, each as a test of every operator. The letters and numbers are those of the list of known failures.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from epoch_bench import Bench
from small_streams import Batch, answer, rows, stream

import penstock as ps
from penstock.api.streams import Stream
from penstock.plan.compile.subqueries import compile_query
from penstock.plan.logical import JOINS
from penstock.progress.mark import MAX_TIME, MIN_TIME
from penstock.testing import assert_same_rows, batch_answer
from penstock.testing.source_rows import tables_of
from penstock.testing.ways import Way
from tests.support.amounts import some_of
from tests.support.clock import SimulatedClock
from tests.support.crashes import Place, Scenario, assert_exact, finish
from tests.support.queries.data import SECOND
from tests.support.queries.operators import OperatorQuery, operator_queries

QUERIES = operator_queries(1)


# -- C9, C10: late rows ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lateness", ["window", "row"])
@pytest.mark.parametrize("mark", some_of([20, 21, 22, 23], 2))
@pytest.mark.parametrize("name", QUERIES)
def test_c9_late_rows_at_every_edge_of_panes_windows_bands_and_gaps(
    name: str, mark: int, lateness: str, place: Place, way: Way
) -> None:
    """Windows begin every 4 and end 10 later, so panes are of 2: punctuation and late rows fall on every place."""

    def source(name: str, mark: int) -> Stream:
        early = [(t, t % 2) for t in range(0, mark + 1, 3)] + [(mark, 0)]
        return stream(name, early, [(t, t % 2) for t in range(mark - 13, mark + 2)], [(mark + 2, 0)])

    scenario = Scenario(QUERIES[name](source("a", mark), source("b", mark - 3)), {"lateness": lateness})
    run = finish(scenario, place, way)
    if lateness == "row":
        behind = [{"late": 13}, {"late/a": 13, "late/b": 13}]
        assert {output: late.num_rows for output, late in scenario.late.items()} in behind
    assert run.progress.late_rows == sum(late.num_rows for late in scenario.late.values())
    assert_exact(scenario, place, f"{name}, {way}")


@pytest.mark.parametrize(
    ("lateness", "late", "counts"), [("window", 1, {-4: 1, 0: 5, 4: 4}), ("row", 2, {-4: 1, 0: 3, 4: 2})]
)
def test_c9_a_row_for_an_expired_pane_counts_in_the_windows_that_are_still_open(
    lateness: str, late: int, counts: dict[int, int], tmp_path: Path
) -> None:
    """At 7 the window up to 6 is closed, and with it the pane of the row at 5 is expired, but not the windows up to 10
    and up to 14."""
    source = stream("a", [(1, 1), (7, 1)], [(5, 1), (6, 1), (7, 1)], [(30, 1)])
    bench = Bench(source.window(ps.sliding(10, every=4)).agg(n=ps.count()), tmp_path, {"lateness": lateness})
    bench.step(2)
    assert (bench.counts, bench.late) == ({-8: 1, -4: 1}, late)
    bench.finish()
    assert {start: bench.counts[start] for start in (-4, 0, 4)} == counts


@pytest.mark.parametrize("kind", JOINS)
@pytest.mark.parametrize("late_side", ["a", "b"])
def test_c10_a_late_row_meets_nothing_and_is_counted(kind: str, late_side: str, tmp_path: Path) -> None:
    """Whether or not its partner is still stored: here that of 5 is gone, and that of 99 is not."""
    late: Batch = [(5, 1), (99, 2)]
    batches: list[Batch] = [[(5, 1), (99, 2), (100, 3)], [(101, 3)]]
    sides = {n: stream(n, *batches, late if n == late_side else [], [(300, 3)]) for n in "ab"}
    query = sides["a"].join(sides["b"], "k", within=(2, 2), kind=kind)
    bench = Bench(query, tmp_path)
    bench.step(2)
    met = bench.result
    bench.step()
    assert bench.late == 2
    assert_same_rows(bench.result, met, kind)
    bench.finish()
    on_time = {n: rows([*batches[0], *batches[1], (300, 3)]) for n in "ab"}
    assert_same_rows(bench.result, batch_answer(query.node, on_time), kind)


def test_c10_a_late_row_that_was_seen_before_is_not_new(tmp_path: Path) -> None:
    bench = Bench(stream("a", [(5, 1), (100, 1)], [(5, 1), (6, 1)], [(100, 1)]).distinct(), tmp_path)
    bench.finish()
    assert (sorted(bench.result["ts"].to_pylist()), bench.late) == ([5, 100], 2)


# -- C11: the limits of time -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", QUERIES)
def test_c11_times_up_to_the_limits_of_the_type(name: str, tmp_path: Path) -> None:
    """What is too near for the arithmetic of the operator is a bad row; all else is a row like any other."""
    least, largest = _time_range(QUERIES[name])
    assert MIN_TIME <= least < MIN_TIME + 100
    assert MAX_TIME >= largest > MAX_TIME - 100
    inside = [least, least + 1, least + 3, -1, 0, 1, largest - 3, largest - 1, largest]
    outside = [t for t in (MIN_TIME, least - 1, largest + 1, MAX_TIME) if MIN_TIME <= t <= MAX_TIME]
    outside = [t for t in outside if not least <= t <= largest]
    batches = [[(t, 1) for t in part] for part in ([*inside[:3], *outside], inside[3:6], inside[6:8], inside[8:])]
    query = QUERIES[name](stream("a", *batches), stream("b", *batches))
    bench = Bench(query, tmp_path, {"on_bad_row": "divert"})
    bench.finish()
    usable = {source: _between(table, least, largest) for source, table in tables_of(query.node).items()}
    assert_same_rows(bench.result, batch_answer(query.node, usable), name)
    assert (bench.late, bench.loop.manifest.totals.bad_rows) == (0, len(outside) * len(usable))


def _time_range(query: OperatorQuery) -> tuple[int, int]:
    sink = query(stream("a", []), stream("b", [])).to.memory().sink
    return compile_query(sink).program.time_range


def _between(table: pa.Table, least: int, largest: int) -> pa.Table:
    return table.filter((pc.field("ts") >= least) & (pc.field("ts") <= largest))


@pytest.mark.parametrize("name", operator_queries(SECOND))
def test_c11_negative_times_and_the_year_9999(name: str, way: Way, tmp_path: Path) -> None:
    moments = [datetime(1, 1, 1), datetime(1, 1, 1, 0, 0, 3), datetime(1969, 12, 31, 23, 59, 59, 999_999)]
    moments += [datetime(1970, 1, 1), datetime(9999, 12, 31, 23, 59, 57), datetime(9999, 12, 31, 23, 59, 59, 999_999)]
    parts = [
        pa.table({"ts": pa.array(part, pa.timestamp("us")), "k": [1] * 2, "i": [1, 2]})
        for part in (moments[:2], moments[2:4], moments[4:])
    ]
    query = operator_queries(SECOND)[name](*(ps.read.batches(parts, time="ts", name=n) for n in "ab"))
    bench = Bench(query, tmp_path, way.settings())
    bench.finish()
    assert_same_rows(_as_numbers(bench.result), _as_numbers(answer(query)), f"{name}, {way}")
    assert bench.late == 0


def _as_numbers(table: pa.Table) -> pa.Table:
    """Python has no year 10000, in which windows of the last rows end."""
    types = [pa.int64() if pa.types.is_timestamp(field.type) else field.type for field in table.schema]
    return table.cast(pa.schema(list(zip(table.column_names, types, strict=True))))


# -- C12: silent sources -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Silence:
    """What a source shows from the second epoch on, and what follows: how many of its rows are late, and whether the
    other source's rows of the first epochs are decided by the fourth one."""

    shows: list[Batch]
    idle: str | None
    late: int
    decides: bool


SILENCES = {
    "idle for good": Silence([[], [], [], [], []], "10s", 0, True),
    "stalled for good": Silence([[], [], [], [], []], None, 0, False),
    "finished": Silence([], None, 0, True),
    "finished, though it may be idle": Silence([], "10s", 0, True),
    "idle, resumed in time": Silence([[], [], [], [(52, 1)], [(90, 1)]], "10s", 0, True),
    "idle, resumed late": Silence([[], [], [], [(20, 1), (49, 1), (52, 1)], [(90, 1)]], "10s", 2, True),
    "stalled, resumed": Silence([[], [], [], [(20, 1), (49, 1), (52, 1)], [(90, 1)]], None, 0, False),
    "never silent": Silence([[(5, 1)], [(5, 1)], [(6, 1)], [(52, 1)], [(90, 1)]], "10s", 0, False),
}
WITH_SILENT: dict[str, Callable[[Stream, Stream], Stream]] = {
    **{kind: (lambda a, b, kind=kind: a.join(b, "k", within=(3, 3), kind=kind)) for kind in JOINS},
    "three-way": lambda a, b: ps.join_all([a, b, a], "k", within=3),
    "theta": lambda a, b: a.theta_join(b, ps.col("ts") != ps.col("right_ts"), within=3),
    "union": lambda a, b: a.union(b).window(ps.tumbling(5)).agg(n=ps.count()),
    "in order": lambda a, b: a.union(b).in_order(),
}
DECIDES = ("left", "anti", "union", "in order")  # those that give a row of the busy source without a partner


@pytest.mark.parametrize("silence", SILENCES)
@pytest.mark.parametrize("operator", WITH_SILENT)
def test_c12_a_source_that_is_idle_finished_stalled_or_resumed(
    operator: str, silence: str, random: Random, clock: SimulatedClock, tmp_path: Path
) -> None:
    silent, order = SILENCES[silence], random.choice(["any", "in"])
    busy = stream("busy", *([(t, 1)] for t in (10, 30, 50, 70, 90, 95)))
    query = WITH_SILENT[operator](busy, stream("silent", [(5, 1)], *silent.shows, idle=silent.idle))
    bench = Bench(query, tmp_path, {"order": order}, clock=clock)
    for now in (0.0, 1.0, 9.0, 12.0):  # in the fourth epoch a source without rows since the first is idle
        clock.now = now
        bench.step()
    if operator in DECIDES:
        assert (10 in bench.result.column(0).to_pylist()) is silent.decides
    bench.settings = {"order": order, "sites": 5}
    bench.restart()
    bench.finish()
    assert bench.late == silent.late
    on_time = {name: _not_late(table, silent) for name, table in tables_of(query.node).items()}
    assert_same_rows(bench.result, batch_answer(query.node, on_time), f"{operator}, {silence}, {order}")


def _not_late(table: pa.Table, silent: Silence) -> pa.Table:
    late = pa.array([silent.late > 0 and time in (20, 49) for time in table["ts"].to_pylist()], pa.bool_())
    return table.filter(pc.invert(late))
