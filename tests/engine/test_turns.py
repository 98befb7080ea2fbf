"""Whatever a deadline leaves has its turn: no key starves, also where marks stand still."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock as ps
from penstock.api.streams import Stream
from penstock.balance.decisions import Move, SplitGroup
from penstock.engine.driver.executor import InlineExecutor
from penstock.engine.driver.loop import EpochLoop, Outcome
from penstock.state.directory import Group
from penstock.testing.ways import Way
from tests.support.amounts import some_of
from tests.support.crashes import Place, Scenario, assert_exact
from tests.support.looping import looping

KEYS, EPOCHS, DEPTH = 24, 36, 12
ONE_ITEM = Way(sites=2, groups_per_site=1, items=1, item_rows=1)
Disturbance = Callable[[EpochLoop], None]


# -- queries whose marks stand still, or not ---------------------------------------------------------------------------


def side(name: str, marked: bool) -> Stream:
    """A row of every key in every epoch. Time moves on, but nobody says so, unless it is `marked`."""
    parts = [pa.table({"ts": [n] * KEYS, "k": range(KEYS), "mark": [marked] * KEYS}) for n in range(EPOCHS)]
    return ps.read.batches(parts, time="ts", progress=ps.punctuated(ps.col("mark"), keep=True), name=name)


def join(marked: bool = False) -> Stream:
    left, right = (side(name, marked) for name in "ab")
    return left.select("ts", "k").join(right.select("ts", "k"), "k", within=0).select("k")


def windows() -> Stream:
    return side("a", marked=True).group_by("k").window(ps.tumbling(1)).agg(n=ps.count())


QUERIES = {"join": join, "windows": windows, "marked join": lambda: join(marked=True)}


# -- what may happen to groups meanwhile -------------------------------------------------------------------------------


def nothing(loop: EpochLoop) -> None: ...


def split_deeply(loop: EpochLoop) -> None:
    """The group at the very end is split again and again, so that groups of one site differ much in width."""
    if loop.manifest.epoch == 0:
        for depth in range(1, DEPTH):
            loop.change(0, SplitGroup(Group((1 << depth) - 1, depth)))


def scatter_deeply(loop: EpochLoop) -> None:
    split_deeply(loop)
    if loop.manifest.epoch == 0:
        for number, group in enumerate(loop.directories[0].groups):
            loop.change(0, Move(group, loop.directories[0].home(group), number % 2))


def keep_moving(loop: EpochLoop) -> None:
    """A narrow group goes to and fro: for all others nothing must begin anew."""
    split_deeply(loop)
    group = loop.directories[0].groups[-1]
    if loop.manifest.epoch % 3 == 2:
        home = loop.directories[0].home(group)
        loop.change(0, Move(group, home, 1 - home))


def first_epochs(loop: EpochLoop, place: Place, disturb: Disturbance) -> dict[int, int]:
    """By key, the epoch that was the first to put it out, as long as input comes."""
    found: dict[int, int] = {}
    for epoch in range(EPOCHS - 1):
        disturb(loop)
        assert loop.step() is Outcome.WORKED
        if files := list(place.results.glob("*.parquet")):
            found = dict.fromkeys(pq.ParquetDataset(files).read(["k"])["k"].to_pylist(), epoch) | found
    return found


@pytest.mark.parametrize("disturb", some_of([nothing, split_deeply, scatter_deeply, keep_moving], 4))
@pytest.mark.parametrize("name", QUERIES)
def test_every_key_has_its_turn(name: str, disturb: Disturbance, place: Place) -> None:
    """A site works on one key an epoch, and so on each after as many epochs as there are keys."""
    scenario = Scenario(QUERIES[name]())
    with looping(scenario, place, ONE_ITEM, InlineExecutor()) as (loop, _):
        found = first_epochs(loop, place, disturb)
        assert sorted(found) == list(range(KEYS))
        assert max(found.values()) <= KEYS + 2
        while loop.step() is not Outcome.FINISHED:
            pass
    assert_exact(scenario, place)


def test_a_restart_goes_on_where_the_last_run_was(place: Place) -> None:
    scenario = Scenario(join())
    for _ in range(EPOCHS // 4):
        with looping(scenario, place, ONE_ITEM, InlineExecutor()) as (loop, _):
            for _ in range(3):
                loop.step()
    found = set(pq.ParquetDataset(list(place.results.glob("*.parquet"))).read(["k"])["k"].to_pylist())
    assert sorted(found) == list(range(KEYS))


def test_a_site_that_has_done_all_begins_at_the_beginning(place: Place) -> None:
    """Otherwise its work would be in two items from then on."""
    with looping(Scenario(join()), place, Way(sites=1, items=1, item_rows=KEYS), InlineExecutor()) as (loop, _):
        loop.step()
        assert loop.manifest.subqueries[0].sites[0].turn
    with looping(Scenario(join()), place, Way(sites=1), InlineExecutor()) as (loop, _):
        loop.step()
        assert not loop.manifest.subqueries[0].sites[0].turn
