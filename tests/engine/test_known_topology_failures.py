"""Failures that systems like this one have had with chains of operators, unions, streams that are read twice, and the
number of sites, each as a test. The letters and numbers are those of the list of known failures.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from epoch_bench import Bench
from small_streams import stream

import penstock as ps
from penstock.api.streams import Stream
from penstock.plan.logical import JOINS
from penstock.testing.ways import Way
from tests.support.amounts import some_of
from tests.support.crashes import (
    Place,
    Scenario,
    another_way,
    assert_exact,
    disorderly_source,
    finish,
    launch,
    operator_scenario,
)
from tests.support.queries.data import SCHEMA, SECOND, rows_from
from tests.support.queries.operators import OperatorQuery, operator_queries

QUERIES = operator_queries(SECOND)


# -- C5: chains --------------------------------------------------------------------------------------------------------


def counted(source: Stream, size: int, *keys: str) -> Stream:
    return source.group_by(*keys).window(ps.tumbling(f"{size}s")).agg(n=ps.count())


def sessions(source: Stream) -> Stream:
    return source.group_by("k").window(ps.session("2s")).agg(n=ps.count())


def joined(a: Stream, b: Stream) -> Stream:
    return a.join(b, "k", within=("1s", "3s"))


CHAINS: dict[str, OperatorQuery] = {
    "aggregate, aggregate": lambda a, b: counted(counted(a, 5, "k"), 20),
    "join, aggregate": lambda a, b: counted(joined(a, b), 10, "k"),
    "join, aggregate by the other time": lambda a, b: (
        joined(a, b).group_by("k").window(ps.tumbling("10s", time="right_ts")).agg(n=ps.count())
    ),
    "outer join, aggregate": lambda a, b: counted(a.join(b, "k", within="2s", kind="left"), 10, "k"),
    "session, aggregate": lambda a, b: sessions(a).group_by().window(ps.tumbling("10s")).agg(n=ps.count()),
    "aggregate, join": lambda a, b: counted(a, 5, "k").join(counted(b, 5, "k"), "k", within="window", kind="full"),
    "distinct, top": lambda a, b: a.select("ts", "k").distinct().windowed(ps.tumbling("5s")).top(2, "k"),
    "distinct, join, aggregate, aggregate": lambda a, b: counted(
        counted(joined(a.distinct(), b), 5, "k").select("window_start", "k"), 20
    ),
    "join, session, aggregate, top": lambda a, b: (
        sessions(a.join(b, "k", within="1s", kind="left"))
        .group_by("n").window(ps.tumbling("10s")).agg(sessions=ps.count()).top(1, ps.desc("sessions"))
    ),
    "aggregate, aggregate, join, moments": lambda a, b: (
        counted(counted(a, 5, "k"), 10, "k").join(counted(b, 10, "k"), "k", within="window")
        .group_by().at("window_start").agg(n=ps.count())
    ),
}  # fmt: skip


@pytest.mark.parametrize("order", some_of(["any", "any again", "in"]))
@pytest.mark.parametrize("chain", CHAINS)
def test_c5_what_an_operator_gives_is_not_late_for_the_next(
    chain: str, order: str, random: Random, place: Place, way: Way
) -> None:
    scenario = operator_scenario(random, CHAINS[chain], order=order.split()[0])
    finish(scenario, place, way)
    assert_exact(scenario, place, f"{way}\n{scenario.stream.explain()}")


def test_c5_a_chain_of_four_passes_each_window_on_in_the_epoch_that_closes_it(tmp_path: Path) -> None:
    def tens(source: Stream, time: str) -> Stream:
        return source.window(ps.tumbling(10, time=time)).agg(n=ps.count())

    query = stream("a", [(1, 1)], [(11, 1)], [(20, 1)], [(35, 1)])
    for time in ("ts", "window_start", "window_start", "window_start"):
        query = tens(query, time)
    bench, seen = Bench(query, tmp_path), []
    for _ in range(4):
        bench.step()
        seen.append(sorted(bench.counts))
    assert seen == [[], [0], [0, 10], [0, 10, 20, 30]]  # the last epoch is the end


# -- C6: branches of a union -------------------------------------------------------------------------------------------

BRANCHES: dict[str, Callable[[Stream, Stream], Stream]] = {
    "filtered away": lambda a, b: a.union(b.where(ps.lit(False))),
    "an output that gets nothing": lambda a, b: a.union(b.split(ps.lit(True))[1]),
    "among several": lambda a, b: a.union(b.where(ps.lit(False)), a.where(ps.lit(False)), b.where(ps.col("k") < 0)),
}


@pytest.mark.parametrize("branch", BRANCHES)
def test_c6_a_branch_without_rows_neither_moves_the_mark_nor_is_skipped(branch: str, tmp_path: Path) -> None:
    a, b = stream("a", [(5, 1)], [(45, 1)], [], [(46, 1)]), stream("b", [(1, 1)], [(2, 1)], [(25, 1)], [(30, 1)])
    query = BRANCHES[branch](a, b).window(ps.tumbling(10)).agg(n=ps.count())
    bench = Bench(query, tmp_path)
    bench.step(2)
    assert bench.counts == {}  # the branch can still bring rows from 2 on
    bench.settings = {"sites": 5}
    bench.restart()
    bench.step()
    assert bench.counts == {0: 1}
    bench.finish()
    assert (bench.counts, bench.late) == ({0: 1, 40: 2}, 0)


def test_c6_an_output_that_nobody_reads_is_progress_all_the_same(tmp_path: Path) -> None:
    read, _ = stream("a", [(5, 1)], [(45, -1)], []).split(ps.col("k") > 0)
    bench = Bench(read.window(ps.tumbling(10)).agg(n=ps.count()), tmp_path)
    bench.step(2)
    assert bench.counts == {0: 1}
    bench.finish()
    assert bench.counts == {0: 1}


# -- C13: sites --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", QUERIES)
def test_c13_the_answer_is_the_same_on_1_2_3_and_7_sites(name: str, random: Random, tmp_path: Path) -> None:
    scenario = operator_scenario(random, QUERIES[name])
    for sites in (1, *some_of([2, 3, 7])):
        place = Place(tmp_path / str(sites))
        finish(scenario, place, Way(sites=sites, groups_per_site=random.choice([1, 4])))
        assert_exact(scenario, place, f"{name}, {sites} sites")


# -- B7, A8: topologies ------------------------------------------------------------------------------------------------


def _of_kind(kind: str, sides: Callable[[Stream, Stream], tuple[Stream, Stream]]) -> OperatorQuery:
    def query(a: Stream, b: Stream) -> Stream:
        left, right = sides(a, b)
        return left.join(right, "k", within="2s", kind=kind)

    return query


TOPOLOGIES: dict[str, OperatorQuery] = {
    **{f"{kind} self-join": _of_kind(kind, lambda a, b: (a, a)) for kind in JOINS},
    "self-join through filters": lambda a, b: (
        a.where(ps.col("i") > 0).join(a.where(ps.col("i") < 2), "k", within="1s")
    ),
    "self-union": lambda a, b: counted(a.union(a), 5, "k"),
    "self-union of an aggregate": lambda a, b: counted(counted(a, 5, "k").union(counted(a, 5, "k")), 10, "k"),
    "an aggregate joined with itself": lambda a, b: counted(a, 5, "k").join(counted(a, 5, "k"), "k", within="window"),
    "an aggregate joined with its input": lambda a, b: (
        counted(a, 5, "k").join(a, "k", within=(0, "5s"), kind="right")
    ),
    "theta self-join": lambda a, b: a.theta_join(a, ps.col("i") < ps.col("right_i"), within="1s"),
    "theta self-join over rows": lambda a, b: (
        a.theta_join(a.where(ps.col("k") > 0), ps.col("i") < ps.col("right_i"), last_rows=(2, 3))
    ),
    "moments of a self-join": lambda a, b: (
        a.join(a, "k", within=(0, "1s")).group_by().at("ts", "right_ts").agg(n=ps.count())
    ),
    **{f"{kind} join with no data on the right": _of_kind(kind, lambda a, b: (a, b)) for kind in JOINS},
    **{f"{kind} join with no data on the left": _of_kind(kind, lambda a, b: (b, a)) for kind in JOINS},
    "union with no data": lambda a, b: counted(b.union(a), 5, "k"),
    "no data in the middle": lambda a, b: ps.join_all([a, b, a], "k", within="1s"),
}  # fmt: skip


@pytest.mark.parametrize("order", some_of(["any", "in"], 2))
@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_b7_a8_restarts_on_other_sites_in_mid_stream(
    topology: str, order: str, random: Random, place: Place, way: Way
) -> None:
    a = disorderly_source(random, rows_from(random, 40, 0, SECOND), 5, "a")
    b = ps.read.batches([SCHEMA.empty_table()] * random.choice([1, 5, 8]), time="ts", name="b")
    scenario, restarts = Scenario(TOPOLOGIES[topology](a, b), {"order": order}), 0
    while launch(scenario, place, way, until=f"{random.randint(1, 3)} epochs").wait().progress.state != "finished":
        way, restarts = another_way(random, way), restarts + 1
    assert restarts
    assert_exact(scenario, place, f"{way}\n{scenario.stream.explain()}")
