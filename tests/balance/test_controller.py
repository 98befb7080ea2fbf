"""The controller: when it decides, what it refuses and why, what it measures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest

from penstock.balance.controller import Controller
from penstock.balance.decisions import Change, Decision, Measured, Merge, Move, Scale, SplitGroup
from penstock.balance.policies import policy_named, register
from penstock.balance.policy import Learning
from penstock.balance.rules import Rules
from penstock.balance.stats import Loads, RoundStats
from penstock.errors import ConfigError
from penstock.state.directory import Directory, Group, uniform
from penstock.units import MEGABYTE

FREE = Rules(cool_down=0, budget=10**12, most_sites=8)
FIRST = Group(0, 2)  # of four groups at two sites


@dataclass(frozen=True)
class Scripted:
    """Wants the same things every time."""

    changes: tuple[Change, ...]
    gain: float = 0.0
    name: str = "scripted"

    def decide(self, stats: RoundStats) -> Sequence[Decision]:
        return [Decision(change, "because", self.gain) for change in self.changes]


def epoch(
    directory: Directory | None = None, seconds: float = 1.0, busy: float = 0.5, **stats: list[int]
) -> RoundStats:
    """One epoch in which every group got 100 rows and holds a megabyte, unless `stats` say otherwise."""
    directory = directory or uniform(2, 2)
    count = len(directory.groups)
    usual = {"rows": 100, "heaviest": 1, "state_rows": 1000, "state_bytes": MEGABYTE, "pending": 0, "last_used": 1}
    columns = {name: np.asarray(stats.get(name, [value] * count), np.int64) for name, value in usual.items()}
    loads = replace(Loads.none(count), **columns, seconds=np.full(count, 0.1), done=columns["rows"])
    sites = np.ones(directory.sites)
    return RoundStats(directory, 1, seconds, loads, sites * busy, sites, sites * 0)


def controller(*changes: Change, rules: Rules = FREE, gain: float = 0.0) -> Controller:
    return Controller(Scripted(changes, gain), rules, 1.0)


def test_a_round_is_as_long_as_its_length() -> None:
    heard = replace(controller(), length=2.5)
    for number in range(3):
        assert not heard.due, number
        heard = heard.observe(epoch())
    assert heard.due
    assert heard.stats is not None
    assert (heard.stats.epochs, heard.stats.seconds) == (3, 3.0)
    assert heard.stats.loads.rows.tolist() == [300] * 4
    assert heard.stats.loads.state_rows.tolist() == [1000] * 4
    assert heard.stats.busy.tolist() == [1.5, 1.5]


def test_in_the_first_part_of_a_calm_round_nobody_has_to_tell() -> None:
    heard = replace(controller(), length=4.0)
    for _ in range(2):
        assert not heard.wants_statistics
        heard = heard.skip(1.0)
    for _ in range(2):
        assert heard.wants_statistics
        assert not heard.due
        heard = heard.observe(epoch())
    assert heard.due
    following, outcome = heard.decide()
    assert outcome.accepted == ()
    assert not following.wants_statistics
    assert following.skip(60.0).wants_statistics
    assert not following.skip(60.0).observe(epoch()).due  # a pause is no reason to judge by one epoch


def test_behind_a_change_they_tell_all_the_time() -> None:
    following, outcome = controller(SplitGroup(FIRST)).observe(epoch()).decide()
    assert len(outcome.accepted) == 1
    assert following.wants_statistics
    assert following.observe(epoch(outcome.directory)).due


def test_a_round_begins_anew_under_another_directory() -> None:
    other = uniform(2, 2).moved(FIRST, 1)
    heard = controller().observe(epoch()).observe(epoch(other))
    assert heard.stats is not None
    assert (heard.stats.directory, heard.stats.epochs) == (other, 1)
    assert controller().skip(0.4).observe(epoch(seconds=0.5)).observe(epoch(other, seconds=0.5)).rested == 0.0


def test_backlog_is_an_average_and_the_last_use_the_latest() -> None:
    first, second = epoch(last_used=[7, 0, 0, 7]), epoch(last_used=[8, 8, 0, 0])
    both = first.then(replace(second, backlog=np.array([6.0, 0.0]))).then(epoch(last_used=[0, 0, 0, 0]))
    assert both.backlog.tolist() == [2.0, 0.0]
    assert both.loads.last_used.tolist() == [8, 8, 0, 7]


def test_later_decisions_may_rely_on_earlier_ones() -> None:
    half = FIRST.halves[1]
    _, outcome = controller(SplitGroup(FIRST), Move(half, 0, 1), Scale(3)).observe(epoch()).decide()
    assert outcome.refused == ()
    assert len(outcome.directory.groups) == 5
    assert outcome.directory.sites == 3
    _, outcome = controller(Move(half, 0, 1), SplitGroup(FIRST)).observe(epoch()).decide()
    assert [(str(r.decision.change), r.rule) for r in outcome.refused] == [
        ("move 001 from site 0 to site 1", "there is no such group")
    ]


@pytest.mark.parametrize(
    ("change", "stats", "rule"),
    [
        (SplitGroup(FIRST), {"heaviest": [100, 1, 1, 1]}, "one key"),
        (SplitGroup(Group(0, 48)), {}, "no such group"),
        (Scale(9), {}, "1 to 8 sites"),
        (Scale(2), {}, "as many sites already"),
        (Merge(Group(0, 2)), {}, "do not exist"),
        (Move(FIRST, 0, 5), {}, "2 sites"),
    ],
)
def test_what_is_refused(change: Change, stats: dict[str, list[int]], rule: str) -> None:
    _, outcome = controller(change).observe(epoch(**stats)).decide()  # type: ignore[arg-type]
    assert outcome.accepted == ()
    assert rule in outcome.refused[0].rule
    assert outcome.directory == uniform(2, 2)


def test_a_group_that_was_moved_stays_for_a_while() -> None:
    away, back = Move(FIRST, 0, 1), Move(FIRST, 1, 0)
    rules = replace(FREE, cool_down=2)
    now, outcome = controller(away, rules=rules).observe(epoch()).decide()
    moved = outcome.directory
    said = []
    for _ in range(4):
        now = replace(now, policy=Scripted((back,)))
        now, outcome = now.observe(epoch(moved)).decide()
        said.append([refusal.rule for refusal in outcome.refused])
        if outcome.accepted:
            break
    assert said == [["it was moved recently"], ["it was moved recently"], []]


def test_halves_of_a_group_that_was_moved_stay_as_long() -> None:
    rules = replace(FREE, cool_down=1)
    now, _ = controller(Move(FIRST, 0, 1), SplitGroup(FIRST), rules=rules).observe(epoch()).decide()
    assert set(now.cooldown_until) >= set(FIRST.halves)


def test_so_many_bytes_move_in_a_round_but_one_group_always_may() -> None:
    moves = [Move(Group(prefix, 2), 0, 1) for prefix in (0, 1)]
    rules = replace(FREE, budget=3 * MEGABYTE // 2)
    _, outcome = controller(*moves, rules=rules).observe(epoch()).decide()
    assert [len(outcome.accepted), len(outcome.refused)] == [1, 1]
    assert "1 MB of state" in outcome.refused[0].rule
    _, outcome = controller(moves[0], rules=replace(FREE, budget=1)).observe(epoch()).decide()
    assert len(outcome.accepted) == 1


def test_a_receiver_never_overflows() -> None:
    moves = [Move(Group(prefix, 2), 0, 1) for prefix in (0, 1)]
    full = replace(epoch(), memory=3 * MEGABYTE)
    _, outcome = controller(*moves).observe(full).decide()
    assert [refusal.rule for refusal in outcome.refused] == ["the memory of site 1 would overflow"]
    stateless = replace(epoch(state_bytes=[0, 0, MEGABYTE, MEGABYTE]), memory=MEGABYTE)
    assert controller(*moves).observe(stateless).decide()[1].refused == (), "they bring no state"
    waiting = replace(epoch(pending=[40, 0, 70, 0]), capacity=100)
    _, outcome = controller(*moves).observe(waiting).decide()
    assert [refusal.rule for refusal in outcome.refused] == ["the buffer of site 1 would overflow"]


def test_sites_are_not_given_up_where_the_others_would_overflow() -> None:
    """But where all are too full, there may be more of them."""
    fewer, more = controller(Scale(1)), controller(Scale(4))
    for full, what in (
        (replace(epoch(), memory=3 * MEGABYTE), "memory"),
        (replace(epoch(pending=[40, 0, 70, 0]), capacity=100), "buffer"),
    ):
        _, outcome = fewer.observe(full).decide()
        assert [refusal.rule for refusal in outcome.refused] == [f"the {what} of site 0 would overflow"]
    _, outcome = fewer.observe(replace(epoch(), memory=4 * MEGABYTE)).decide()
    assert outcome.directory.sites == 1
    _, outcome = more.observe(replace(epoch(), memory=MEGABYTE // 2)).decide()
    assert outcome.directory.sites == 4


def test_where_all_buffers_are_too_full_the_fuller_site_gives() -> None:
    move = Move(FIRST, 0, 1)
    _, outcome = controller(move).observe(replace(epoch(pending=[50, 400, 70, 70]), capacity=100)).decide()
    assert [made.change for made in outcome.accepted] == [move]
    _, outcome = controller(move).observe(replace(epoch(pending=[50, 100, 70, 70]), capacity=100)).decide()
    assert [refusal.rule for refusal in outcome.refused] == ["the buffer of site 1 would overflow"]


def test_where_all_memories_are_too_full_the_fuller_site_gives() -> None:
    """As long as the receiver ends with less than the giver had."""
    move, small = Move(FIRST, 0, 1), MEGABYTE // 8
    for sizes, rules in (
        ([2, 4, 2, 1], []),
        ([3, 4, 2, 1], []),  # the giver ends with less than the receiver, but the two are closer together
        ([3, 3, 2, 1], ["the memory of site 1 would overflow"]),  # they would swap
        ([1, 3, 2, 2], ["the memory of site 1 would overflow"]),
    ):
        full = replace(epoch(state_bytes=[size * small for size in sizes]), memory=small)
        _, outcome = controller(move).observe(full).decide()
        assert [refusal.rule for refusal in outcome.refused] == rules, sizes


def test_what_is_known_of_groups_that_are_new() -> None:
    """A half counts for half of what was split, a merged group for both of its halves."""
    moves = (SplitGroup(FIRST), Move(FIRST.halves[0], 0, 1))
    _, outcome = controller(*moves, rules=replace(FREE, budget=0)).observe(epoch()).decide()
    assert len(outcome.accepted) == 2
    merged = (Merge(Group(0, 1)), Move(Group(0, 1), 0, 1))
    _, outcome = controller(*merged).observe(replace(epoch(), memory=4 * MEGABYTE - 1)).decide()
    assert [refusal.rule for refusal in outcome.refused] == ["the memory of site 1 would overflow"]


def test_what_was_predicted_is_measured_a_round_later() -> None:
    now, outcome = controller(Move(FIRST, 0, 1), gain=0.25).observe(epoch(busy=0.8)).decide()
    assert outcome.measured is None
    now, outcome = now.observe(epoch(outcome.directory, busy=0.4)).decide()
    assert outcome.measured == Measured(0.25, pytest.approx(0.5))
    _, outcome = replace(now, policy=Scripted(())).observe(epoch(outcome.directory)).decide()
    assert outcome.measured is None, "nothing was decided in the round before"


def test_policies_have_names() -> None:
    assert policy_named("static").decide(epoch()) == ()
    with pytest.raises(ConfigError, match="unknown policy") as caught:
        policy_named("evn")
    assert "`even`" in caught.value.hint
    register(Scripted((), name="one of a user's"))
    assert policy_named("one of a user's") == Scripted((), name="one of a user's")
    with pytest.raises(ConfigError, match="already"):
        register(Scripted((), name="flux"))


@dataclass(frozen=True)
class WithOtherMethods(Scripted):
    """A user's policy whose methods happen to have the names of those that learn and that set the pace."""

    def after(self) -> str:
        raise AssertionError("it has not declared that it learns")

    def next_round(self) -> str:
        raise AssertionError("it has not declared that it sets the pace")


@dataclass(frozen=True)
class Counting(Scripted, Learning):
    rounds: int = 0

    def after(self, stats: RoundStats) -> Counting:
        return replace(self, rounds=self.rounds + 1)


def test_a_policy_learns_only_if_it_declares_so() -> None:
    policies = [WithOtherMethods(()), Counting(())]
    unlearned, learned = (Controller(policy, FREE, 1.0).observe(epoch()).decide()[0].policy for policy in policies)
    assert unlearned == policies[0]
    assert learned == Counting((), rounds=1)
