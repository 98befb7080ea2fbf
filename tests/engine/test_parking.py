"""State that is parked, in any range and at any time, and cleaned up later changes nothing about the answer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest

import penstock as ps
from penstock.balance.decisions import CleanUp, Move, Park, Scale, SplitGroup
from penstock.connectors.source import Offer
from penstock.engine.driver.executor import InlineExecutor
from penstock.engine.driver.loop import EpochLoop, Outcome
from penstock.engine.task.site.storing import InPlace
from penstock.engine.task.site.working import Work
from penstock.events import DirectoryChanged, EpochCommitted
from penstock.operators.protocol import Portion, WorkResult
from penstock.state.directory import Group
from penstock.state.hash_ranges import HashRange
from penstock.state.model import SiteState
from penstock.state.runs import Slice
from penstock.storage.faults import FaultPoint, InjectedCrash, arm, disarm
from penstock.testing.ways import Way, random_way
from tests.support.crashes import (
    Place,
    Scenario,
    assert_exact,
    newest_manifest,
    operator_scenario,
    random_fault,
    random_scenario,
)
from tests.support.looping import looping
from tests.support.queries.data import SECOND
from tests.support.queries.operators import operator_queries
from tests.support.schedules import die_with_changes, step_with_changes

QUERIES = operator_queries(SECOND)
OVERFLOW = ["read", "park", "rotate", "defer"]
EACH = 10  # schedules in one test
PARKS = 0.4


@pytest.mark.parametrize("case", range(42))
def test_any_schedule_of_parks_gives_the_batch_answer(case: int, random: Random, tmp_path: Path) -> None:
    """Groups are parked, cleaned up, moved, split, merged and rescaled, under deadlines of all kinds."""
    for number in range(EACH):
        name, place, way = random.choice(sorted(QUERIES)), Place(tmp_path / str(number)), random_way(random)
        drawn = operator_scenario(random, QUERIES[name], 5) if number % 5 else random_scenario(random, 6)
        scenario = replace(drawn, settings=drawn.settings | {"overflow": random.choice(OVERFLOW)})
        told = step_with_changes(scenario, place, way, InlineExecutor(), random, PARKS)
        changes = [event.what for event in told if isinstance(event, DirectoryChanged)]
        assert_exact(scenario, place, f"{name}, {way}, {scenario.settings}\n{changes}\n{scenario.stream.explain()}")


@pytest.mark.parametrize("case", range(8))
def test_crashes_between_parks(case: int, random: Random, place: Place) -> None:
    name, way, story = random.choice(sorted(QUERIES)), random_way(random), []
    scenario = operator_scenario(random, QUERIES[name]) if case % 2 else random_scenario(random)
    for _ in range(3):
        fault = random_fault(random)
        story.append(f"{fault}, {way}")
        if die_with_changes(scenario, place, way, InlineExecutor(), random, fault, PARKS) is not None:
            break
        way = replace(random_way(random), hash_bits=way.hash_bits)
    step_with_changes(scenario, place, way, InlineExecutor(), random, PARKS)
    assert_exact(scenario, place, f"{name}, {story}, then {way}\n{scenario.stream.explain()}")


@pytest.mark.parametrize("nth", [1, 2])
@pytest.mark.parametrize("name", ["inner join", "full join", "three-way join", "windows"])
def test_death_in_a_clean_up(name: str, nth: int, random: Random, place: Place) -> None:
    """The results of a clean-up that died are staged and not named, so they are produced again, once."""
    scenario = operator_scenario(random, QUERIES[name], overflow="rotate")
    way = Way(sites=2, groups_per_site=4, rows_per_epoch=8)
    arm(FaultPoint.SITE_CLEANED, nth)
    with pytest.raises(InjectedCrash):
        _run_parking_all(scenario, place, way)
    disarm()
    step_with_changes(scenario, place, way, InlineExecutor(), random, PARKS)
    assert_exact(scenario, place)


def _run_parking_all(scenario: Scenario, place: Place, way: Way) -> None:
    with looping(scenario, place, way, InlineExecutor()) as (loop, _):
        while loop.step() is not Outcome.FINISHED:
            _park_all(loop)


def _sites(loop: EpochLoop) -> Iterator[SiteState]:
    return (site for state in loop.manifest.subqueries for site in state.sites)


def _park_all(loop: EpochLoop) -> None:
    for subquery, directory in enumerate(loop.directories):
        for group in directory.groups:
            assert loop.change(subquery, Park(group)) is None


@pytest.mark.parametrize("name", ["inner join", "left join", "three-way join", "theta join", "windows", "sessions"])
def test_what_is_parked_waits_for_the_end_and_is_used_then(name: str, random: Random, place: Place) -> None:
    """With `defer`, nothing is cleaned up before the end unless it is overdue; marks of parked ranges stand still."""
    scenario = operator_scenario(random, QUERIES[name], 9, overflow="defer")
    most, way = 0, Way(sites=2, groups_per_site=1, rows_per_epoch=8, max_delay=1_000_000)
    with looping(scenario, place, way, InlineExecutor()) as (loop, _):
        while loop.step() is not Outcome.FINISHED:
            _park_all(loop)
            parked = (parked for site in _sites(loop) for parked in site.parked)
            most = max(most, max((len(one.generations) for one in parked), default=0))
        assert not any(site.parked or site.active for site in _sites(loop))
    assert most > 1, "no range was parked twice"
    assert_exact(scenario, place)


def _joined(rows: int = 12, within: str = "1h", keys: int = 1) -> Scenario:
    """Return a join of two sources, with one row of the same second and key in each batch of either."""
    times = [datetime(2026, 1, 1) + timedelta(seconds=n) for n in range(rows)]
    parts = [
        pa.table({"ts": pa.array([at], pa.timestamp("us")), "k": pa.array([n % keys], pa.int64())})
        for n, at in enumerate(times)
    ]
    a, b = (ps.read.batches(parts, time="ts", name=name) for name in "ab")
    return Scenario(a.join(b, "k", within=within), {"overflow": "defer"})


ONE_GROUP = Way(sites=1, groups_per_site=1)
WHOLE = Group(0, 0)


def test_rows_are_joined_without_what_is_parked_until_it_is_cleaned_up(place: Place) -> None:
    scenario = _joined()
    with looping(scenario, place, ONE_GROUP, InlineExecutor()) as (loop, _):
        steps = [_new_results(loop, change) for change in (None, Park(WHOLE), None, CleanUp(WHOLE), None)]
        assert [site.parked for site in _sites(loop)] == [()]
        while loop.step() is not Outcome.FINISHED:
            pass
    # All pairs of n rows of either source are n * n. The first two rows are parked: three epochs give 1, 1 and 3 pairs,
    # the fourth gives all that are missing.
    assert steps == [1, 1, 3, 4 * 4 - 5, 5 * 5 - 4 * 4]
    assert_exact(scenario, place)


def _new_results(loop: EpochLoop, change: Park | CleanUp | None) -> int:
    before = loop.manifest.totals.rows_out
    if change is not None:
        assert loop.change(0, change) is None
    loop.step()
    return loop.manifest.totals.rows_out - before


def test_what_is_parked_is_not_read(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    read, access = set[str](), InPlace.read

    def noted(self: InPlace, piece: Slice) -> pa.Table:
        read.add(piece.run.name)
        return access(self, piece)

    monkeypatch.setattr(InPlace, "read", noted)
    with looping(_joined(), place, ONE_GROUP, InlineExecutor()) as (loop, _):
        loop.step()
        loop.change(0, Park(WHOLE))
        for _ in range(6):
            loop.step()
            (site,) = _sites(loop)
            parked = {piece.run.name for piece in site.parked_slices()}
            assert parked
            assert not parked & read
        loop.change(0, CleanUp(WHOLE))
        loop.step()
        assert parked <= read


def test_a_clean_up_looks_rows_up_in_one_table_of_each_input(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many epochs have written what is parked: a join of three inputs would take nine times as long with
    thrice the tables."""
    found, produce = list[int](), Work.produce

    def noted(self: Work, part: HashRange, portion: Portion) -> WorkResult:
        if portion.clean_up:
            found.extend(map(len, portion.stored))
        return produce(self, part, portion)

    monkeypatch.setattr(Work, "produce", noted)
    scenario = _joined()
    with looping(scenario, place, ONE_GROUP, InlineExecutor()) as (loop, _):
        for number in range(9):
            loop.step()
            if number % 3 == 2:
                loop.change(0, Park(WHOLE))
        while loop.step() is not Outcome.FINISHED:
            pass
    assert len(found) > 2
    assert set(found) == {1}
    assert_exact(scenario, place)


@pytest.mark.parametrize(
    ("overflow", "within", "stays"),
    [("defer", "1h", True), ("park", "1h", True), ("rotate", "1h", False), ("defer", "2s", False)],
    ids=["deferred", "busy", "in turns", "overdue"],
)
def test_when_parked_state_is_cleaned_up(overflow: str, within: str, stays: bool, place: Place) -> None:
    scenario = replace(_joined(within=within), settings={"overflow": overflow})
    with looping(scenario, place, ONE_GROUP, InlineExecutor()) as (loop, _):
        loop.step()
        loop.change(0, Park(WHOLE))
        for _ in range(6):
            loop.step()
        assert any(site.parked for site in _sites(loop)) is stays
        while loop.step() is not Outcome.FINISHED:
            pass
    assert_exact(scenario, place)


@pytest.mark.parametrize(("overflow", "cleaned"), [("defer", False), ("park", True)])
def test_parked_state_is_cleaned_up_while_there_is_no_input(
    overflow: str, cleaned: bool, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    scenario = replace(_joined(), settings={"overflow": overflow})
    with looping(scenario, place, ONE_GROUP, InlineExecutor()) as (loop, _):
        for _ in range(4):
            loop.step()
            loop.change(0, Park(WHOLE))
        usual = loop._intake(loop.manifest.sources, loop._source_intake.leads)
        offers = tuple(Offer((), state.progress or {}, False, 0) for state in loop.manifest.sources)
        monkeypatch.setattr(loop, "_intake", lambda *_: replace(usual, offers=offers, routes=()))
        assert loop.step() is (Outcome.WORKED if cleaned else Outcome.IDLE)
        assert any(site.parked for site in _sites(loop)) is not cleaned
        assert loop.step() is Outcome.IDLE, "an epoch without work"


def test_parked_state_moves_and_is_cut_with_its_group(place: Place) -> None:
    scenario = _joined()
    with looping(scenario, place, Way(sites=2, groups_per_site=1), InlineExecutor()) as (loop, _):
        loop.step()
        _park_all(loop)
        loop.step()
        for group, site in ((Group(0, 1), 0), (Group(1, 1), 1)):
            loop.change(0, Move(group, site, 1 - site))
            loop.change(0, SplitGroup(group))
        before = [bool(site.parked) for site in _sites(loop)]
        loop.step()
        assert [bool(site.parked) for site in _sites(loop)] == before[::-1]
        assert loop.change(0, Scale(1)) is None
        while loop.step() is not Outcome.FINISHED:
            pass
    assert_exact(scenario, place)


@pytest.mark.parametrize("policy", ["local"])  # what others decide depends on how long sites take
@pytest.mark.parametrize("overflow", ["park", "rotate", "defer"])
def test_a_policy_parks_state_that_exceeds_its_limit(policy: str, overflow: str, place: Place) -> None:
    settings = {"policy": policy, "overflow": overflow, "state_bytes": 4_000, "round_seconds": 0.001}
    scenario = replace(_joined(40, keys=16), settings=settings)
    with looping(scenario, place, Way(rows_per_epoch=2, groups_per_site=4), InlineExecutor()) as (loop, told):
        while loop.step() is not Outcome.FINISHED:
            pass
    assert any(event.parked_bytes for event in told if isinstance(event, EpochCommitted))
    assert {event.what.split()[0] for event in told if isinstance(event, DirectoryChanged)} >= {"park"}
    assert_exact(scenario, place)


def test_nothing_is_parked_unless_a_run_allows_it(place: Place) -> None:
    settings = {"policy": "local", "state_bytes": 4_000, "round_seconds": 0.001}
    scenario = replace(_joined(20, keys=16), settings=settings)
    with looping(scenario, place, Way(rows_per_epoch=2, groups_per_site=4), InlineExecutor()) as (loop, told):
        while loop.step() is not Outcome.FINISHED:
            pass
    assert not any(isinstance(event, DirectoryChanged) for event in told)


def test_nothing_is_parked_after_the_end_of_the_input(place: Place) -> None:
    scenario = _joined(3)
    with looping(scenario, place, replace(ONE_GROUP, items=1, item_rows=1), InlineExecutor()) as (loop, _):
        while loop.step() is not Outcome.FINISHED:
            loop.change(0, Park(WHOLE))
        assert newest_manifest(place.checkpoint).finished
    assert_exact(scenario, place)


@pytest.mark.parametrize("name", ["theta join", "theta join over rows"])
def test_a_grid_that_changes_is_not_parked_before_its_rows_are_in_their_cells(
    name: str, random: Random, place: Place
) -> None:
    scenario = operator_scenario(random, QUERIES[name], overflow="defer")
    with looping(scenario, place, Way(sites=2, groups_per_site=2), InlineExecutor()) as (loop, _):
        for sites in (5, 3, 1):
            loop.step()
            loop.change(0, Scale(sites))
            _park_all(loop)
        while loop.step() is not Outcome.FINISHED:
            pass
    assert_exact(scenario, place)
