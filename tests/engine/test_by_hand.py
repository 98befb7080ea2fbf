"""What is changed by hand, and what becomes of it under a policy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import penstock as ps
from penstock.balance import policies
from penstock.balance.decisions import Decision, Merge, Move, SplitGroup, Spread
from penstock.balance.policies.even import Even
from penstock.balance.stats import Loads, RoundStats
from penstock.engine.driver.adapt import BY_HAND, Adaptation
from penstock.engine.driver.executor import InlineExecutor
from penstock.engine.driver.loop import EpochLoop
from penstock.events import ChangeRefused, DirectoryChanged, Event, Rebalanced
from penstock.operators.reorder import Reorder
from penstock.state.directory import Group, uniform
from penstock.testing.ways import Way
from tests.support.crashes import Place, Scenario
from tests.support.looping import looping

WAY = Way(sites=2, groups_per_site=4, rows_per_epoch=50)
FIRST = Group(0, 3)


def joined() -> Scenario:
    """A join that keeps all rows."""
    rows = pa.table({"ts": range(0, 50_000, 100), "k": range(500)})
    parts = [rows.slice(start, 25) for start in range(0, 500, 25)]
    left, right = (ps.read.batches(parts, time="ts", progress=ps.slack(0), name=name) for name in "ab")
    return Scenario(left.join(right, "k", within="1s"))


@dataclass(frozen=True)
class Homesick:
    """Wants the first group, or its halves, back at site 0, whatever is in cooldown; at first it splits the group."""

    name: str = "homesick"
    splits: bool = False

    def decide(self, stats: RoundStats) -> Sequence[Decision]:
        directory = stats.directory
        if self.splits and FIRST in directory.groups:
            return [Decision(SplitGroup(FIRST), "to see what is in it")]
        wanted = [group for group in directory.groups if group.range.high <= FIRST.range.high]
        return [Decision(Move(group, directory.home(group), 0), "home") for group in wanted if directory.home(group)]


@contextmanager
def under(policy: Homesick, path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[EpochLoop, list[Event]]]:
    monkeypatch.setitem(policies._known, policy.name, policy)
    with looping(joined(), Place(path), WAY, InlineExecutor(), policy=policy.name, round_seconds=0.0) as (loop, told):
        yield loop, told


def steps(loop: EpochLoop, count: int) -> None:
    for _ in range(count):
        loop.step()


@pytest.mark.parametrize("splits", [False, True])
def test_what_was_moved_by_hand_stays_until_sites_are_evened_out_by_hand(
    splits: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with under(Homesick(splits=splits), tmp_path, monkeypatch) as (loop, told):
        steps(loop, 1)
        assert loop.change(0, Move(FIRST, 0, 1)) is None
        steps(loop, 6)
        assert loop.directories[0].home_at(FIRST.range.low) == 1
        refused = {event.rule for event in told if isinstance(event, ChangeRefused)}
        assert refused == {"it was moved by hand"}
        loop.rebalance(0)
        steps(loop, 4)
        assert loop.directories[0].home_at(FIRST.range.low) == 0


def two_subqueries() -> Scenario:
    """A join, and counts of its pairs."""
    both = joined().stream
    return Scenario(both.group_by("k").window(ps.tumbling("1ms")).agg(n=ps.count()))


def test_all_subqueries_are_scaled_or_none(tmp_path: Path) -> None:
    with looping(two_subqueries(), Place(tmp_path), WAY, InlineExecutor(), policy="static") as (loop, _):
        loop.step()
        assert loop.change(0, Spread(7, 0, (0, 1))) is None
        loop.step()
        assert not loop.scale([0, 1], 1)
        assert [directory.sites for directory in loop.directories] == [2, 2]
        steps(loop, 3)
        assert [directory.sites for directory in loop.directories] == [1, 1]
        assert loop.scale([1], 3)
        assert [directory.sites for directory in loop.directories] == [1, 3]


def test_what_was_heard_in_the_round_counts_where_sites_are_evened_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    epochs = []

    class Notes(Even):
        def decide(self, stats: RoundStats) -> Sequence[Decision]:
            epochs.append(stats.epochs)
            return []

    monkeypatch.setattr("penstock.engine.driver.adapt.Even", Notes)
    monkeypatch.setattr("penstock.engine.driver.adapt.LOOK", 0.0)
    monkeypatch.setattr("penstock.balance.controller.REST_SHARE", 0.0)
    with looping(joined(), Place(tmp_path), WAY, InlineExecutor(), round_seconds=3600.0) as (loop, told):
        steps(loop, 5)
        loop.rebalance(0)
        steps(loop, 1)
        assert [event.epoch for event in told if isinstance(event, Rebalanced)] == [6]
    assert epochs == [5]  # the first epoch warms processes and caches


def test_who_asks_need_not_wait_until_a_slow_site_is_believed_to_be_slow() -> None:
    """One of two sites is half as fast, so a third of the groups is its part."""
    directory, rows = uniform(2, 64), np.full(128, 1000)
    seconds = np.where(directory.home_of == 0, 0.02, 0.01)
    loads = replace(Loads.none(128), rows=rows, seconds=seconds, done=rows)
    busy = np.bincount(directory.home_of, weights=seconds)
    stats = RoundStats(directory, 10, 2.0, loads, busy, np.full(2, busy.max()), np.zeros(2))
    operator = Reorder("ts", pa.schema([("ts", pa.int64())]), ("ts",))
    adaptation = Adaptation([directory], [operator], [], lambda event: None)
    adaptation.rebalance(0)
    for epoch in (1, 2):  # the first one warms processes
        adaptation.observe(epoch, [stats])
    (after,) = adaptation.directories
    assert 41 <= np.count_nonzero(after.home_of == 0) <= 45


def test_sites_are_not_evened_out_by_one_short_epoch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.engine.driver.adapt.LOOK", 3600.0)
    with looping(joined(), Place(tmp_path), WAY, InlineExecutor(), policy="static") as (loop, told):
        loop.rebalance(0)
        steps(loop, 4)
        assert loop._adaptation.wants_statistics
    assert not [event for event in told if isinstance(event, Rebalanced)]


def test_a_policy_is_told_which_groups_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[list[bool]] = []

    class Looks(Homesick):
        def decide(self, stats: RoundStats) -> Sequence[Decision]:
            seen.append(stats.stays.tolist())
            return []

    with under(Looks(), tmp_path, monkeypatch) as (loop, _):
        steps(loop, 2)
        loop.change(0, Move(FIRST, 0, 1))
        steps(loop, 4)
    assert (seen[0], seen[-1]) == ([False] * 8, [True] + [False] * 7)


def test_a_change_by_hand_tells_how_much_state_changes_hands(tmp_path: Path) -> None:
    with looping(joined(), Place(tmp_path), WAY, InlineExecutor(), policy="static") as (loop, told):
        steps(loop, 5)
        loop.watched = True
        steps(loop, 1)
        held = loop.stats[0].loads.state_bytes
        loop.change(0, Move(FIRST, 0, 1))
        loop.change(0, SplitGroup(FIRST))
        loop.change(0, Merge(FIRST))
    costs = [event.cost for event in told if isinstance(event, DirectoryChanged) and event.why == BY_HAND]
    assert costs[0] == pytest.approx(held[0], rel=0.5)
    assert costs[1:] == [0, 0]
