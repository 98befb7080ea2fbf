"""Closings that are spread stay spread where groups move: by hand, by any policy that keeps the rules, by `even`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count, pairwise
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pytest

import penstock as ps
from penstock.api.streams import Stream
from penstock.balance.decisions import Change, Decision, Merge, Move, SplitGroup
from penstock.balance.policies import register
from penstock.balance.policy import Learning
from penstock.balance.stats import RoundStats
from penstock.engine.driver.executor import InlineExecutor
from penstock.engine.driver.loop import EpochLoop, Outcome
from penstock.engine.wire.job import EpochJob, LookAhead, Report, RouteTask, SiteReport, nothing_follows
from penstock.events import DirectoryChanged, EpochCommitted
from penstock.state.directory import Directory
from penstock.testing.ways import Way
from tests.support.amounts import some_of
from tests.support.crashes import Place, Scenario, assert_exact
from tests.support.looping import looping

WINDOW, KEYS, EPOCHS, WINDOWS, SITES = 100, 500, 20, 3, 3
SLOW = Way(sites=SITES, groups_per_site=4, flush="slow")
MORE = 1.5  # times the largest burst without moves: what there may be with them
_names = count()


def regular(per_key: int = 3) -> Stream:
    """Every key in every window, rows in order of time, a batch an epoch."""
    random = np.random.default_rng(7)
    times = np.sort(random.integers(0, WINDOWS * WINDOW, per_key * KEYS * WINDOWS))
    rows = pa.table({"ts": times, "k": random.integers(0, KEYS, len(times))})
    borders = np.searchsorted(times, np.arange(0, WINDOWS * WINDOW + 1, WINDOW // EPOCHS))
    parts = [rows.slice(low, high - low) for low, high in pairwise(borders)]
    stream = ps.read.batches(parts, time="ts", progress=ps.ordered())
    return stream.group_by("k").window(ps.tumbling(WINDOW)).agg(n=ps.count())


@dataclass(frozen=True)
class Course:
    """The most rows that an epoch gave before the end of the input, and how many groups moved."""

    burst: int
    moves: int


def run(
    place: Place, executor: InlineExecutor, policy: str, before: Callable[[EpochLoop], None], per_key: int = 3
) -> Course:
    """Run to the end, with something done `before` each epoch; the rows are right in any case."""
    scenario = Scenario(regular(per_key))
    with looping(scenario, place, SLOW, executor, policy=policy, round_seconds=1e-6) as (loop, told):
        before(loop)
        while loop.step() is not Outcome.FINISHED:
            before(loop)
    assert_exact(scenario, place)
    *given, _ = [event.rows_out for event in told if isinstance(event, EpochCommitted)]
    moves = [event for event in told if isinstance(event, DirectoryChanged) and event.what.startswith("move")]
    return Course(max(given), len(moves))


def nothing(loop: EpochLoop) -> None: ...


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory) -> int:
    """The largest burst without a move."""
    course = run(Place(tmp_path_factory.mktemp("calm")), InlineExecutor(), "static", nothing)
    assert course.moves == 0
    assert course.burst <= KEYS * 2 / EPOCHS
    return course.burst


def random_changes(directory: Directory, random: Random) -> Iterator[Change]:
    """Many moves at once, or one, or none, with splits and merges among them."""
    for _ in range(random.choice([0, 0, 0, 1, 2, 8])):
        group = random.choice(directory.groups)
        home = directory.home(group)
        change: Change = Move(group, home, random.choice([site for site in range(SITES) if site != home]))
        match random.randrange(8):
            case 0 if group.depth < 8:
                change = SplitGroup(group)
            case 1 if group.depth > 4 and len({directory.home_at(half.range.low) for half in group.halves}) == 1:
                change = Merge(group)
        yield change


@pytest.mark.parametrize("seed", some_of(range(3)))
def test_slow_closings_stay_spread_where_groups_are_moved_by_hand(seed: int, calm: int, tmp_path: Path) -> None:
    random = Random(seed)

    def moved(loop: EpochLoop) -> None:
        for change in random_changes(loop.directories[0], random):
            loop.change(0, change)

    course = run(Place(tmp_path), InlineExecutor(), "static", moved)
    assert course.moves > 10
    assert course.burst <= MORE * calm


@dataclass(frozen=True)
class Restless(Learning):
    """Moves groups about for no reason at all, another one in every round."""

    name: str
    seed: int
    round: int = 0

    def decide(self, stats: RoundStats) -> Sequence[Decision]:
        random = Random(1_000 * self.seed + self.round)
        return [Decision(change, "because") for change in random_changes(stats.directory, random)]

    def after(self, stats: RoundStats) -> Restless:
        return replace(self, round=self.round + 1)


@pytest.mark.parametrize("seed", some_of(range(3)))
def test_slow_closings_stay_spread_under_a_policy_that_moves_groups(seed: int, calm: int, tmp_path: Path) -> None:
    """Its decisions go through the controller, and what breaks a rule is refused."""
    policy = Restless(f"restless {next(_names)}", seed)
    register(policy)
    course = run(Place(tmp_path), InlineExecutor(), policy.name, nothing)
    assert course.moves > 10
    assert course.burst <= MORE * calm


class OneSlowSite(InlineExecutor):
    """A row takes a millisecond, and three times as long at one site; at another one in each window."""

    def __init__(self, first: int) -> None:
        super().__init__()
        self._first = first

    def run(self, job: EpochJob, routes: Sequence[RouteTask], following: LookAhead = nothing_follows) -> list[Report]:
        slow = (self._first + job.epoch // EPOCHS) % SITES
        reports = super().run(job, routes, following)
        return [_costly(one, 3 if one.site == slow else 1) if isinstance(one, SiteReport) else one for one in reports]


def _costly(report: SiteReport, times: float) -> SiteReport:
    seconds, told = report.rows_in * 1e-3 * times, report.statistics
    if told is not None:
        told = replace(told, load=replace(told.load, seconds=told.load.rows * 1e-3 * times))
    return replace(report, time=replace(report.time, seconds=seconds), statistics=told)


@pytest.mark.parametrize("seed", some_of(range(2)))
def test_slow_closings_stay_spread_under_the_default_policy(seed: int, calm: int, tmp_path: Path) -> None:
    still = run(Place(tmp_path / "still"), OneSlowSite(seed), "static", nothing, per_key=20)
    course = run(Place(tmp_path / "even"), OneSlowSite(seed), "even", nothing, per_key=20)
    assert course.moves > 0
    assert course.burst <= MORE * still.burst
