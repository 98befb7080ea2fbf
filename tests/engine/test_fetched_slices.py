"""Slices that have to be fetched come whenever they come; the answer stays the same, and whoever has all goes on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest

import penstock as ps
from penstock.api.streams import Stream
from penstock.balance.decisions import Move
from penstock.engine.driver.loop import EpochLoop, Outcome
from penstock.errors import CorruptCheckpointError
from penstock.events import EpochCommitted, EpochTimed
from penstock.state.runs import restrict
from penstock.storage.cache.host import Bring
from penstock.testing.ways import Way, random_way
from tests.support.amounts import random_cases
from tests.support.crashes import (
    Place,
    Scenario,
    assert_exact,
    operator_scenario,
    random_fault,
    random_scenario,
)
from tests.support.hosts import HostsExecutor, LateFetcher
from tests.support.looping import looping
from tests.support.queries.data import SECOND
from tests.support.queries.operators import operator_queries
from tests.support.schedules import die_with_changes, random_change

QUERIES = operator_queries(SECOND)
EACH = 3  # schedules in one test
KEYS = 50
CHANGING = 30  # epochs
FAR = {"deadline_seconds": 3600.0}  # never reached; but with a deadline nobody waits for a fetch


def some_scenario(random: Random) -> Scenario:
    """Most of them with a deadline."""
    found = random.choice(
        [
            lambda: random_scenario(random),
            lambda: operator_scenario(random, QUERIES[random.choice(sorted(QUERIES))]),
        ]
    )()
    settings = {**found.settings, **random.choice([FAR, FAR, {}]), "order": random.choice(["any", "any", "any", "in"])}
    return replace(found, settings=settings)


def run_with_late_fetches(random: Random, scenario: Scenario, place: Place, way: Way) -> tuple[int, int]:
    """To the end; gives how many slices came late, and the bytes that were fetched."""
    made: list[LateFetcher] = []

    def fetcher(bring: Bring) -> LateFetcher:
        made.append(LateFetcher(bring, random))
        return made[-1]

    executor = HostsExecutor(place.root / "hosts", random.choice([2, 3]), fetcher)
    with looping(scenario, place, way, executor) as (loop, _):
        while loop.step() is not Outcome.FINISHED:
            change_something(loop, random)
    return sum(one.late for one in made), executor.fetched


@pytest.mark.parametrize("case", random_cases(8))
def test_any_order_of_arrival_gives_the_batch_answer(case: int, random: Random, tmp_path: Path) -> None:
    """Runs are fetched late, by random numbers of epochs, while groups move."""
    for number in range(EACH):
        scenario, place, way = some_scenario(random), Place(tmp_path / str(number)), random_way(random)
        run_with_late_fetches(random, scenario, place, way)
        assert_exact(scenario, place, f"{way}, {scenario.settings}\n{scenario.stream.explain()}")


def test_such_runs_do_have_late_fetches(random: Random, tmp_path: Path) -> None:
    places = (Place(tmp_path / str(number)) for number in range(50))
    runs = (run_with_late_fetches(random, some_scenario(random), place, random_way(random)) for place in places)
    assert any(late and fetched for late, fetched in runs)


@pytest.mark.parametrize("case", random_cases(6))
def test_caches_that_are_lost_or_spoilt_lose_nothing(case: int, random: Random, tmp_path: Path) -> None:
    """Also with a cache that is far too small, and with runs that die."""
    for number in range(EACH):
        scenario, place, way = some_scenario(random), Place(tmp_path / str(number)), random_way(random)
        hosts, most_bytes = place.root / "hosts", random.choice([1, 10_000, 1 << 30])
        die_with_changes(
            scenario, place, way, HostsExecutor(hosts, 2, cache_bytes=most_bytes), random, random_fault(random)
        )
        spoil(hosts, random)
        way = replace(random_way(random), hash_bits=way.hash_bits)
        executor = HostsExecutor(hosts, 2, cache_bytes=most_bytes)
        with looping(scenario, place, way, executor) as (loop, _):
            while loop.step() is not Outcome.FINISHED:
                if random.random() < 0.3:
                    spoil(hosts, random)
                    executor = HostsExecutor(hosts, 2, cache_bytes=most_bytes)
                    loop._executor = executor  # the processes of all hosts have died
                change_something(loop, random)
        assert_exact(scenario, place, f"{way}, {scenario.settings}\n{scenario.stream.explain()}")


def change_something(loop: EpochLoop, random: Random) -> None:
    """Not for ever: what moves again before it has been fetched is never worked on."""
    if random.random() < 0.5 or loop.manifest.epoch > CHANGING:
        return
    subquery = random.randrange(len(loop.directories))
    loop.change(subquery, random_change(random, loop.directories[subquery]))


def spoil(hosts: Path, random: Random) -> None:
    """Some files of caches get lost, or shorter, or have other bytes."""
    for file in sorted(path for path in hosts.rglob("*") if path.is_file()):
        try:
            content = bytearray(file.read_bytes())
        except FileNotFoundError:
            continue  # it has just been evicted
        match random.choice(["nothing", "gone", "cut", "changed"]):
            case "gone":
                file.unlink(missing_ok=True)
            case "cut":
                replaced(file, content[: random.randrange(len(content) + 1)])
            case "changed" if content:
                content[random.randrange(len(content))] ^= 1 << random.randrange(8)
                replaced(file, content)


def replaced(file: Path, content: bytearray) -> None:
    """Whoever has it open keeps it as it was."""
    file.unlink(missing_ok=True)
    file.write_bytes(content)


class NeverFetcher(LateFetcher):
    """Nothing arrives, until it is told to."""

    arrives = False

    def begin(self, slices: object) -> None:
        if self.arrives:
            super().begin(slices)  # type: ignore[arg-type]


def to_end(loop: EpochLoop) -> None:
    while loop.step() is not Outcome.FINISHED:
        pass


def every_key(batches: int, name: str) -> Stream:
    """In every batch a row of each of many keys, within a few seconds: all groups have state, and none expires."""
    tables = [
        pa.table({"ts": [at * SECOND] * KEYS, "k": list(range(KEYS)), name: [at * KEYS + k for k in range(KEYS)]})
        for at in range(batches)
    ]
    return ps.read.batches(tables, time="ts", progress=ps.slack(0), name=name)


def moving_scenario() -> Scenario:
    return Scenario(every_key(6, "a").join(every_key(6, "b"), on="k", within="10s"), FAR)


def test_other_groups_go_on_while_a_moved_one_is_fetched(random: Random, place: Place) -> None:
    """Half of the groups of a site get another home, where they do not arrive: the others are worked on up to the end,
    and those are pending; when they arrive, the run ends with the batch answer."""
    scenario, made = moving_scenario(), []

    def fetcher(bring: Bring) -> NeverFetcher:
        made.append(NeverFetcher(bring, random, most=0))
        return made[-1]

    executor = HostsExecutor(place.root / "hosts", 2, fetcher)
    with looping(scenario, place, Way(sites=2, groups_per_site=2), executor) as (loop, told):
        for _ in range(3):
            loop.step()
        assert loop.change(0, Move(loop.directories[0].groups[0], 0, 1)) is None
        for _ in range(20):
            assert loop.step() is not Outcome.FINISHED
        moved = loop.directories[0].groups[0].range
        marks = [(part.range, part.marks) for site in loop.manifest.subqueries[0].sites for part in site.marks]
        lagging = [part for part, reached in marks if not all(mark.ended for mark in reached)]
        assert lagging
        assert all(part.low >= moved.low and part.high <= moved.high for part in lagging)
        NeverFetcher.arrives = True
        try:
            to_end(loop)
        finally:
            NeverFetcher.arrives = False
    assert [event for event in told if isinstance(event, EpochCommitted)][-2].pending
    assert sum(task.fetched for event in told if isinstance(event, EpochTimed) for task in event.tasks) > 0
    assert_exact(scenario, place)


def test_rows_that_wait_for_work_are_fetched_like_others(random: Random, place: Place) -> None:
    """A group gets another home while most of its rows are pending."""
    scenario, way = moving_scenario(), Way(sites=2, groups_per_site=2, items=1, item_rows=5)
    executor = HostsExecutor(place.root / "hosts", 2, lambda bring: LateFetcher(bring, random))
    with looping(scenario, place, way, executor) as (loop, _):
        for _ in range(3):
            loop.step()
        group = loop.directories[0].groups[0]
        assert any(restrict(loop.manifest.subqueries[0].sites[0].pending, [group.range]))
        assert loop.change(0, Move(group, 0, 1)) is None
        to_end(loop)
    assert_exact(scenario, place)


def test_a_run_that_cannot_be_fetched_ends_the_query(random: Random, place: Place) -> None:
    scenario = moving_scenario()
    with looping(scenario, place, Way(sites=2), HostsExecutor(place.root / "hosts", 2)) as (loop, _):
        for _ in range(3):
            loop.step()
        for run in (place.checkpoint / "runs").iterdir():
            run.write_bytes(run.read_bytes()[:-1] + b"?")
        for group in loop.directories[0].groups[:16]:
            loop.change(0, Move(group, 0, 1))
        with pytest.raises(CorruptCheckpointError, match="the state file"):
            to_end(loop)
