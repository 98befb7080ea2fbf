"""The rules of parking and cleaning up: what is refused and why, and what later decisions of the same round see."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest

from penstock.balance.controller import Controller, RoundOutcome
from penstock.balance.decisions import Change, CleanUp, Decision, Merge, Move, Park, Scale, SplitGroup, Spread
from penstock.balance.rules import Rules
from penstock.balance.stats import Loads, RoundStats
from penstock.state.directory import Directory, Group, uniform
from penstock.state.hot_keys import Cells
from penstock.units import MEGABYTE

FREE = Rules(cool_down=0, budget=10**12, most_sites=8)
FIRST, SECOND, THIRD, FOURTH = (Group(prefix, 2) for prefix in range(4))  # at sites 0, 0, 1, 1
PARKED = {"parked_bytes": [MEGABYTE, 0, 0, 0]}


@dataclass(frozen=True)
class Wanting:
    """Wants the same things every time."""

    changes: tuple[Change, ...]
    name: str = "wanting"

    def decide(self, stats: RoundStats) -> Sequence[Decision]:
        return [Decision(change, "because") for change in self.changes]


def epoch(directory: Directory | None = None, memory: int = 4 * MEGABYTE, **stats: Sequence[int]) -> RoundStats:
    """One epoch in which every group holds a megabyte and no row is pending, unless `stats` say otherwise."""
    directory = directory or uniform(2, 2)
    loads = replace(Loads.none(len(directory.groups)), state_bytes=np.full(len(directory.groups), MEGABYTE))
    loads = replace(loads, **{name: np.asarray(values) for name, values in stats.items()})
    sites = np.ones(directory.sites)
    return RoundStats(directory, 1, 1.0, loads, sites, sites, sites * 0, memory=memory, may_park=True, may_cut=(0,))


def decided(stats: RoundStats, *changes: Change) -> RoundOutcome:
    return Controller(Wanting(changes), FREE, 1.0).observe(stats).decide()[1]


def refused(stats: RoundStats, *changes: Change) -> list[tuple[str, str]]:
    return [(str(refusal.decision.change), refusal.rule) for refusal in decided(stats, *changes).refused]


def test_a_park_and_a_clean_up_change_no_directory() -> None:
    outcome = decided(epoch(parked_bytes=[0, 0, 0, 5]), Park(FIRST), CleanUp(FOURTH))
    assert [made.change for made in outcome.accepted] == [Park(FIRST), CleanUp(FOURTH)]
    assert outcome.directory == uniform(2, 2)


@pytest.mark.parametrize(
    ("stats", "group", "rule"),
    [
        (epoch(), Group(0, 3), "there is no such group"),
        (replace(epoch(), may_park=False), FIRST, "this run does not park state"),
        (epoch(memory=0), FIRST, "the state of a site is not bounded in this run"),
        (epoch(pending=[1, 0, 0, 0]), FIRST, "it has pending rows"),
        (epoch(state_bytes=[0, 1, 1, 1], parked_bytes=[9, 0, 0, 0]), FIRST, "it has no active state"),
        (epoch(uniform(2, 2).spread_over(Cells(FIRST.low, 0, (0, 1)))), FIRST, "a key of it is spread"),
    ],
)
def test_what_cannot_be_parked(stats: RoundStats, group: Group, rule: str) -> None:
    assert refused(stats, Park(group)) == [(f"park {group}", rule)]


def test_groups_without_pending_rows_are_parked_beside_one_that_has_some() -> None:
    assert refused(epoch(pending=[1, 0, 0, 0]), Park(SECOND), Park(THIRD)) == []


def test_what_cannot_be_cleaned_up() -> None:
    assert refused(epoch(**PARKED), CleanUp(SECOND)) == [("clean up 01", "nothing of it is parked")]
    assert refused(epoch(**PARKED), CleanUp(Group(0, 3))) == [("clean up 000", "there is no such group")]
    assert refused(epoch(**PARKED), CleanUp(FIRST)) == []
    assert refused(epoch(**PARKED), CleanUp(FIRST), CleanUp(FIRST)) == [("clean up 00", "nothing of it is parked")]


def test_what_is_parked_comes_back_also_where_nothing_may_be_parked() -> None:
    unbounded = replace(epoch(memory=0, **PARKED), may_park=False)
    assert refused(unbounded, CleanUp(FIRST)) == []


def test_a_group_is_not_parked_and_cleaned_up_in_one_round() -> None:
    assert refused(epoch(**PARKED), Park(FIRST), CleanUp(FIRST)) == [("clean up 00", "it is parked in this round")]
    assert refused(epoch(**PARKED), CleanUp(FIRST), Park(FIRST)) == [("park 00", "it is cleaned up in this round")]
    assert refused(epoch(), Park(FIRST), Park(FIRST)) == [("park 00", "it has no active state")]


def test_a_group_is_not_parked_and_moved_in_one_round() -> None:
    move, half = Move(FIRST, 0, 1), Move(FIRST.halves[1], 0, 1)
    assert refused(epoch(), Park(FIRST), move) == [(str(move), "it is parked in this round")]
    assert refused(epoch(), Park(FIRST), SplitGroup(FIRST), half) == [(str(half), "it is parked in this round")]
    assert refused(epoch(), move, Park(FIRST)) == [("park 00", "site 1 receives state in this round")]
    assert refused(epoch(), Park(FIRST), Move(SECOND, 0, 1)) == []


def test_a_site_that_parks_does_not_receive_in_the_same_round() -> None:
    move = Move(FIRST, 0, 1)
    assert refused(epoch(), Park(THIRD), move) == [(str(move), "site 1 parks state in this round")]
    assert refused(epoch(), move, Park(THIRD)) == [("park 10", "site 1 receives state in this round")]


def test_a_key_of_a_group_with_parked_state_is_not_spread() -> None:
    spread = Spread(FIRST.low + 5, 0, (0, 1))
    assert refused(epoch(), spread) == []
    assert [rule for _, rule in refused(epoch(**PARKED), spread)] == ["state of its group is parked"]
    assert [rule for _, rule in refused(epoch(), Park(FIRST), spread)] == ["state of its group is parked"]


def test_parked_state_moves_for_free() -> None:
    """Site 1 has room for one megabyte: for the active state of one group, and not of two."""
    stats = epoch(memory=3 * MEGABYTE, parked_bytes=[50 * MEGABYTE, 0, 0, 0])
    moves = Move(FIRST, 0, 1), Move(SECOND, 0, 1)
    assert refused(stats, *moves) == [(str(moves[1]), "the memory of site 1 would overflow")]
    assert refused(replace(stats, memory=4 * MEGABYTE), *moves) == []


def test_later_decisions_see_what_a_clean_up_takes() -> None:
    """Site 1 holds two megabytes, and three after the clean-up: then another does not fit."""
    stats, move = epoch(memory=3 * MEGABYTE, parked_bytes=[0, 0, 0, MEGABYTE]), Move(FIRST, 0, 1)
    assert refused(stats, move) == []
    assert refused(stats, CleanUp(FOURTH), move) == [(str(move), "the memory of site 1 would overflow")]


@pytest.mark.parametrize("change", [SplitGroup(THIRD), Merge(Group(1, 1))])
def test_later_decisions_see_what_was_parked(change: Change) -> None:
    """One site would hold four megabytes, or three if one is parked; so it may, whatever else has changed."""
    stats = epoch(memory=3 * MEGABYTE)
    assert refused(stats, Scale(1)) == [("scale to 1 sites", "the memory of site 0 would overflow")]
    assert refused(stats, Park(THIRD), Scale(1)) == []
    assert refused(stats, Park(THIRD), change, Scale(1)) == []
    cleaned = epoch(memory=4 * MEGABYTE, parked_bytes=[0, 0, 0, 1])
    assert refused(cleaned, Scale(1)) == []
    assert refused(cleaned, CleanUp(FOURTH), Scale(1)) == [("scale to 1 sites", "the memory of site 0 would overflow")]


def test_a_half_of_a_group_has_half_of_its_state() -> None:
    half = FIRST.halves[0]
    stats = epoch(state_bytes=[4, 0, 4, 0], parked_bytes=[0, 6, 0, 0])
    assert refused(replace(stats, memory=6), SplitGroup(FIRST), Park(half), Scale(1)) == []
    assert refused(replace(stats, memory=5), SplitGroup(FIRST), Park(half), Scale(1)) == [
        ("scale to 1 sites", "the memory of site 0 would overflow")
    ]
    assert refused(stats, SplitGroup(SECOND), CleanUp(SECOND.halves[1])) == []
    assert refused(stats, SplitGroup(FOURTH), Park(FOURTH.halves[0])) == [("park 110", "it has no active state")]


def test_a_site_that_has_parked_is_no_longer_the_fuller_one() -> None:
    """Both sites are too full, and the fuller one may give."""
    stats, move = epoch(state_bytes=[4, 1, 3, 0], memory=2), Move(SECOND, 0, 1)
    assert refused(stats, move) == []
    assert refused(stats, Park(FIRST), move) == [(str(move), "the memory of site 1 would overflow")]
