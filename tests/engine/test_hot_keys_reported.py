"""What sites tell of groups does not count the rows of cells, and cells are fetched like groups."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pytest

import penstock as ps
from penstock.balance.decisions import Gather, Spread
from penstock.engine.driver.executor import InlineExecutor
from penstock.engine.driver.loop import EpochLoop, Outcome
from penstock.engine.task.site.storing import OPEN_RUNS
from penstock.operators.arrange import hashes_of
from penstock.operators.protocol import may_cut
from penstock.state.directory import Directory
from penstock.state.hash_ranges import Hashes
from penstock.state.runs import Slice
from penstock.testing.ways import Way, random_way
from tests.support.amounts import random_cases
from tests.support.crashes import Place, Scenario, assert_exact
from tests.support.hosts import HostsExecutor, LateFetcher
from tests.support.looping import looping
from tests.support.queries.data import SECOND
from tests.support.queries.operators import operator_queries
from tests.support.schedules import random_change
from tests.support.skew import HOT, hash_of, random_change_of_keys, skewed_scenario

QUERIES = operator_queries(SECOND)
SPREADABLE = ["inner join", "left join", "right join", "semi join", "anti join", "three-way join"]
SLOW = Way(sites=3, groups_per_site=8, items=2, item_rows=3, rows_per_epoch=20)
FAR = {"deadline_seconds": 3600.0}  # never reached; but with a deadline nobody waits for a fetch
CHANGING = 40  # epochs: what moves again before it has been fetched is never worked on


def change_something(loop: EpochLoop, random: Random, way: Way) -> None:
    number = random.randrange(len(loop.directories))
    directory, ports = loop.directories[number], loop.query.program.subqueries[number].operator.ports
    of_keys = random_change_of_keys(random, directory, ports, random.choice([HOT, HOT, 1, 2]), way.hash_bits)
    loop.change(number, random.choice([of_keys, of_keys, random_change(random, directory)]))


def within_an_hour(kind: str) -> Scenario:
    """Every other row has the hot key, and none expires."""
    times = pa.array([n * SECOND for n in range(144)], pa.timestamp("us"))
    rows = pa.table({"ts": times, "k": [n % 40 if n % 2 else HOT for n in range(144)]})
    parts = [rows.slice(start, 12) for start in range(0, 144, 12)]
    left, right = (ps.read.batches(parts, time="ts", progress=ps.slack(0), name=name) for name in "ab")
    return Scenario(left.join(right, "k", within="3600s", kind=kind))


@pytest.mark.parametrize("kind", ["inner", "left", "right", "semi", "anti"])
def test_groups_are_told_without_what_is_spread(kind: str, random: Random, place: Place) -> None:
    """Also where a hash is spread or gathered between two epochs, and the slices are the same."""
    scenario, seen = within_an_hour(kind), 0
    with looping(scenario, place, SLOW, InlineExecutor()) as (loop, _):
        loop.step()
        (cut, *_) = may_cut(loop.query.program.subqueries[0].operator)
        assert loop.change(0, Spread(hash_of(HOT, 64), cut, (2, 0))) is None
        finished = False
        while not finished:
            loop.watched = True
            finished = loop.step() is Outcome.FINISHED
            seen += check_figures(loop, place)
            change_something(loop, random, SLOW)
    assert seen, "nothing was spread while sites told of their groups"


def check_figures(loop: EpochLoop, place: Place) -> int:
    """Gives how many rows there are in cells."""
    found = 0
    for stats, state in zip(loop.stats, loop.manifest.subqueries, strict=True):
        assert stats.directory == state.directory
        stored = hashes_in(place, [p for site in state.sites for p in (*site.slices, *site.active)])
        pending = hashes_in(place, [p for site in state.sites for p in site.pending])
        assert stats.loads.state_rows.tolist() == by_group(state.directory, stored)
        assert stats.loads.pending.tolist() == by_group(state.directory, pending)
        found += len(stored) + len(pending) - int((stats.loads.state_rows + stats.loads.pending).sum())
    return found


def hashes_in(place: Place, slices: list[Slice]) -> Hashes:
    columns = [hashes_of(OPEN_RUNS.read(place.checkpoint / "runs", piece)) for piece in slices]
    return np.sort(np.concatenate([np.zeros(0, np.uint64), *columns]))


def by_group(directory: Directory, hashes: Hashes) -> list[int]:
    spread = {cells.hash for cells in directory.spread}
    counts = [0] * len(directory.groups)
    for hash_ in hashes.tolist():
        counts[directory.place_at(hash_)] += hash_ not in spread
    return counts


def test_rows_in_cells_are_told_apart_and_copies_once(place: Place) -> None:
    scenario, hash_, way = within_an_hour("inner"), hash_of(HOT, 64), Way(sites=3)
    told = []
    for spread in (False, True):
        here = Place(place.root / str(spread))
        with looping(scenario, here, way, InlineExecutor()) as (loop, _):
            if spread:
                loop.change(0, Spread(hash_, 1, (2, 0)))
            loop.watched = True
            loop.step()
            told.append(loop.stats[0])
    before, after = told
    (cut,), (copied,) = after.cells.cut.tolist(), after.cells.copied.tolist()
    assert cut[1] == copied[1] == 0
    assert copied[0] == copied[2] > 0
    assert min(cut[0], cut[2]) > 0
    assert before.rows_in == after.rows_in == int(before.loads.rows.sum())
    assert hash_ in {key.hash for key in before.keys}
    assert hash_ not in {key.hash for key in after.keys}
    in_group = directory_rows(before, hash_) - directory_rows(after, hash_)
    assert in_group == sum(cut) + copied[0]
    assert int(after.loads.done.sum()) == int(after.loads.rows.sum()), "all was worked on, and cells are not counted"
    assert after.cells.done.tolist() == (after.cells.cut + after.cells.copied).tolist()


def directory_rows(stats: object, hash_: int) -> int:
    return int(stats.loads.rows[stats.directory.place_at(hash_)])  # type: ignore[attr-defined]


@pytest.mark.parametrize("case", random_cases(10))
def test_cells_whose_rows_are_fetched_late_give_the_batch_answer(case: int, random: Random, tmp_path: Path) -> None:
    """Copies of a cell are slices of runs that another host has written."""
    for number in range(3):
        name, place = random.choice(SPREADABLE), Place(tmp_path / str(number))
        scenario = skewed_scenario(random, QUERIES[name], **random.choice([FAR, FAR, {}]))
        way = random.choice([SLOW, replace(random_way(random), sites=random.choice([2, 3, 5]))])
        executor = HostsExecutor(place.root / "hosts", 2, lambda bring: LateFetcher(bring, random))
        with looping(scenario, place, way, executor) as (loop, _):
            while loop.step() is not Outcome.FINISHED:
                if random.random() < 0.6 and loop.manifest.epoch < CHANGING:
                    change_something(loop, random, way)
        assert_exact(scenario, place, f"{name}, {way}, {scenario.settings}\n{scenario.stream.explain()}")


def test_a_key_is_gathered_although_its_rows_come_late(random: Random, place: Place) -> None:
    scenario, hash_ = replace(within_an_hour("inner"), settings=FAR), hash_of(HOT, 64)
    executor = HostsExecutor(place.root / "hosts", 3, lambda bring: LateFetcher(bring, random))
    with looping(scenario, place, SLOW, executor) as (loop, _):
        for _ in range(4):
            loop.step()
        assert loop.change(0, Spread(hash_, 0, (0, 1, 2))) is None
        for _ in range(4):
            loop.step()
        assert loop.change(0, Gather(hash_)) is None
        while loop.manifest.subqueries[0].directory.spread:
            assert loop.step() is not Outcome.FINISHED
        while loop.step() is not Outcome.FINISHED:
            pass
    assert_exact(scenario, place)


@pytest.mark.parametrize("way", [Way(sites=3), SLOW])
@pytest.mark.parametrize("spread", [False, True])
def test_what_groups_and_cells_put_out_adds_up(spread: bool, way: Way, place: Place) -> None:
    """Also under a deadline, where an epoch puts out results of rows that came before it."""
    scenario, of_all, of_cells, outcome = within_an_hour("inner"), 0.0, 0.0, Outcome.WORKED
    with looping(scenario, place, way, InlineExecutor()) as (loop, _):
        if spread:
            assert loop.change(0, Spread(hash_of(HOT, 64), 0, (2, 0))) is None
        while outcome is not Outcome.FINISHED:
            loop.watched = True
            outcome = loop.step()
            of_all += loop.stats[0].output.sum()
            of_cells += loop.stats[0].cells.output.sum()
    assert of_all == pytest.approx(scenario.results.num_rows)
    assert (of_cells > 0) == spread
