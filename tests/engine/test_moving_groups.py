"""Groups that move, split and merge, and sites that come and go, change nothing about the answer."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from penstock.balance.decisions import Merge, Move, Scale, SplitGroup
from penstock.engine.driver.executor import InlineExecutor
from penstock.engine.driver.loop import EpochLoop, Outcome
from penstock.events import ChangeRefused, DirectoryChanged
from penstock.state.directory import Group
from penstock.testing.ways import Way, random_way
from tests.support.amounts import random_cases
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
EACH = 10  # schedules in one test


@pytest.mark.parametrize("case", range(9))
def test_any_schedule_gives_the_batch_answer(case: int, random: Random, tmp_path: Path) -> None:
    for number in range(EACH):
        scenario, place, way = random_scenario(random), Place(tmp_path / str(number)), random_way(random)
        told = step_with_changes(scenario, place, way, InlineExecutor(), random)
        changes = [event.what for event in told if isinstance(event, DirectoryChanged)]
        assert_exact(scenario, place, f"{way}\n{changes}\n{scenario.stream.explain()}")


@pytest.mark.parametrize("case", range(9))
def test_any_schedule_of_any_operator_gives_the_batch_answer(case: int, random: Random, tmp_path: Path) -> None:
    for number in range(EACH):
        name = random.choice(sorted(QUERIES))
        scenario, place, way = (
            operator_scenario(random, QUERIES[name]),
            Place(tmp_path / str(number)),
            random_way(random),
        )
        told = step_with_changes(scenario, place, way, InlineExecutor(), random)
        changes = [event.what for event in told if isinstance(event, DirectoryChanged)]
        assert_exact(scenario, place, f"{name}, {way}\n{changes}\n{scenario.stream.explain()}")


@pytest.mark.parametrize("case", random_cases(10))
def test_groups_that_are_scattered_over_all_sites(case: int, random: Random, tmp_path: Path) -> None:
    """Neighbours live apart from the first epoch on, and are scattered anew in the middle, with work pending."""
    for number in range(EACH // 2):
        name, place = random.choice(sorted(QUERIES)), Place(tmp_path / str(number))
        scenario = operator_scenario(random, QUERIES[name]) if number % 2 else random_scenario(random)
        way = replace(random_way(random), sites=random.choice([3, 7]), groups_per_site=16)
        with looping(scenario, place, way, InlineExecutor()) as (loop, _):
            for epoch in range(10**6):
                if epoch in (0, 3):
                    _scatter(loop, random)
                if loop.step() is Outcome.FINISHED:
                    break
        assert_exact(scenario, place, f"{name}, {way}\n{scenario.stream.explain()}")


def _scatter(loop: EpochLoop, random: Random) -> None:
    for subquery, directory in enumerate(loop.directories):
        for group in directory.groups:
            loop.change(subquery, Move(group, directory.home(group), random.randrange(directory.sites)))


@pytest.mark.parametrize("case", random_cases(20))
def test_crashes_between_changes(case: int, random: Random, place: Place) -> None:
    """A group that was to move when the driver died is in exactly one place: `assert_exact` looks at all homes."""
    scenario, way, story = random_scenario(random), random_way(random), []
    for _ in range(3):
        fault = random_fault(random)
        story.append(f"{fault}, {way}")
        if die_with_changes(scenario, place, way, InlineExecutor(), random, fault) is not None:
            break
        way = replace(random_way(random), hash_bits=way.hash_bits)
    step_with_changes(scenario, place, way, InlineExecutor(), random)
    assert_exact(scenario, place, f"{story}, then {way}\n{scenario.stream.explain()}")


def test_a_query_is_scaled_while_it_runs(random: Random, place: Place) -> None:
    scenario, wanted, seen = random_scenario(random, batches=9, levels=1), [5, 3, 1, 8], []
    with looping(scenario, place, Way(sites=2), InlineExecutor()) as (loop, _):
        for sites in wanted:
            assert loop.change(0, Scale(sites)) is None
            loop.step()
            seen.append(newest_manifest(place.checkpoint).subqueries[0].directory.sites)
        while not loop.manifest.finished:
            loop.step()
    assert seen == wanted
    assert_exact(scenario, place)


def test_what_was_changed_by_hand_stays_unless_a_run_asks_for_other_sites(random: Random, place: Place) -> None:
    scenario = random_scenario(random, batches=9, levels=1)
    for way, before, after in ((Way(sites=2), 2, 5), (Way(sites=2), 5, 5), (Way(sites=3), 3, 3)):
        with looping(scenario, place, way, InlineExecutor()) as (loop, _):
            assert loop.directories[0].sites == before
            if before != after:
                loop.change(0, Scale(after))
            loop.step()
            assert loop.manifest.subqueries[0].directory.sites == after
    step_with_changes(scenario, place, Way(sites=3), InlineExecutor(), random)
    assert_exact(scenario, place)


def test_a_change_that_is_not_possible_is_refused(scenario: Scenario, place: Place) -> None:
    with looping(scenario, place, Way(sites=2, groups_per_site=2), InlineExecutor()) as (loop, told):
        before = loop.directories
        refused = {
            Move(Group(0, 5), 0, 1): "no such group",
            Move(Group(0, 2), 1, 0): "is at site 0",
            Move(Group(0, 2), 0, 2): "2 sites",
            Move(Group(0, 2), 0, 0): "already",
            SplitGroup(Group(0, 3)): "no such group",
            Merge(Group(0, 2)): "do not exist",
            Merge(Group(0, 0)): "do not exist",
            Scale(0): "at least one site",
        }
        for change, why in refused.items():
            assert why in (loop.change(0, change) or "")
        assert loop.directories == before
        assert [event.rule for event in told if isinstance(event, ChangeRefused)]
        assert loop.change(0, Move(Group(0, 2), 0, 1)) is None
        assert "different sites" in (loop.change(0, Merge(Group(0, 1))) or "")
        assert loop.change(0, Move(Group(1, 2), 0, 1)) is None
        assert loop.change(0, Merge(Group(0, 1))) is None
        assert loop.directories[0].homes == (1, 1, 1)
