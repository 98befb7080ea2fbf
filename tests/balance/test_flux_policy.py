from __future__ import annotations

from dataclasses import replace
from math import prod

import numpy as np
import pytest
from flux_case import Cluster, any_round, applied, cluster, homes, moves, round_of, with_sites_renamed, would_be_busy
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from penstock.balance.decisions import Decision, Move
from penstock.balance.policies.flux import Flux
from penstock.balance.policy import Paced
from penstock.balance.stats import RoundStats
from penstock.state.directory import Group, uniform

FLUX = Flux()
TWO_SITES = homes(uniform(2, 2), 0, 0, 0, 1)  # three groups at site 0, one at site 1


def figure_5() -> RoundStats:
    """Sites 0 to 3 are the paper's 1 to 4, and groups have the numbers of its partitions."""
    rows = {4: 35, 5: 40, 6: 25, 9: 50, 8: 15, 10: 10, 11: 25, 12: 20, 14: 20}
    places = (0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3)
    return round_of(homes(uniform(4, 4), *places), [rows.get(n, 0) for n in range(16)], [100] * 4)


def test_figure_5_of_the_paper() -> None:
    stats = figure_5()
    assert stats.utilisation.tolist() == pytest.approx([1.0, 0.75, 0.45, 0.2])
    # Moving 9 would make site 2 busier than site 1 by more than it is less busy now.
    assert moves(FLUX.decide(stats)) == [(5, 0, 3), (8, 1, 2)]


def test_a_decision_says_why_what_it_gains_and_what_it_costs() -> None:
    stats = round_of(TWO_SITES, [20, 40, 36, 41], [100, 100], state=[1, 700, 2, 3], share=1.0)
    reason = "site 0 is busy 96 % of the time, site 1 41 %"
    gain = 1 - 81 / 96  # site 0 has 56 rows left then, and site 1 has 81
    assert FLUX.decide(stats) == (Decision(Move(Group(1, 2), 0, 1), reason, pytest.approx(gain), 700),)


def test_moves_of_one_round_gain_one_after_the_other() -> None:
    first, second = FLUX.decide(figure_5())
    assert (first.gain, second.gain) == (pytest.approx(0.25), pytest.approx(0.2))  # 1.0, then 0.75, then 0.6


@pytest.mark.parametrize(("rows", "moved"), [(80, [(2, 0, 1)]), (85, [])])
def test_sites_that_are_almost_as_busy_are_left_alone(rows: int, moved: list[tuple[int, int, int]]) -> None:
    stats = round_of(TWO_SITES, [60, 30, 10, rows], [100, 100])  # 1.25 times as busy, or 1.18 times
    assert moves(FLUX.decide(stats)) == moved
    assert moves(replace(FLUX, imbalance=1.1).decide(stats)) == [(2, 0, 1)]


def test_a_site_that_does_less_than_the_average_gives_nothing() -> None:
    directory = homes(uniform(4, 2), 0, 0, 1, 1, 2, 2, 3, 3)
    idle, busy = ([50, 50, first, 5, 15, 15, 0, 0] for first in (35, 45))  # 0.4 or 0.5, and on average 0.43 or 0.45
    assert moves(FLUX.decide(round_of(directory, idle, [100] * 4))) == [(0, 0, 3)]
    assert moves(FLUX.decide(round_of(directory, busy, [100] * 4))) == [(0, 0, 3), (3, 1, 2)]


def test_a_busy_site_receives_nothing() -> None:
    stats = round_of(TWO_SITES, [60, 30, 10, 60], [100, 100])
    assert moves(FLUX.decide(stats)) == [(1, 0, 1)]
    assert moves(replace(FLUX, busiest_receiver=0.5).decide(stats)) == []


def test_a_receiver_is_not_given_more_than_it_has_time_for() -> None:
    # Site 1 needs four times as long for a row: the groups of 50 and 30 rows would take it to 2.4 and 1.6.
    stats = round_of(TWO_SITES, [50, 30, 20, 10], [100, 25], share=1.0)
    assert moves(FLUX.decide(stats)) == []
    assert moves(FLUX.decide(round_of(TWO_SITES, [50, 37, 13, 10], [100, 25], share=1.0))) == [(2, 0, 1)]


def test_a_receiver_that_would_miss_the_deadline_is_given_less() -> None:
    # Site 0 works for 1.2 s where the deadline is at 1.0. With 60 rows more site 1 would, too: it gets 35.
    assert moves(FLUX.decide(round_of(TWO_SITES, [60, 35, 25, 50], [100, 100], share=1.0))) == [(1, 0, 1)]


def test_nobody_becomes_busier_than_the_busiest_was() -> None:
    # 0.8 and 0.2 would become 0.5 and 0.95: closer together, but slower.
    stats = round_of(TWO_SITES, [30, 30, 20, 8], [100, 40], share=1.0)
    assert moves(FLUX.decide(stats)) == [(2, 0, 1)]


def test_a_group_that_is_nearly_all_of_the_work_does_not_wander() -> None:
    # 1.00 and 0.01 would become 0.00 and 0.98, or the other way round if site 0 happens to be faster next time.
    assert moves(FLUX.decide(round_of(TWO_SITES, [0, 100, 0, 1], [100, 103]))) == []
    assert moves(FLUX.decide(round_of(TWO_SITES, [0, 100, 0, 1], [100, 200]))) == [(1, 0, 1)]


@settings(deadline=None)
@given(st.integers(1, 10_000), st.integers(1, 1000))
def test_all_of_the_work_does_not_move_to_a_site_that_is_as_fast(rows: int, speed: int) -> None:
    directory = homes(uniform(3, 1), 0, 0, 0, 1)
    assert moves(FLUX.decide(round_of(directory, [0, 0, rows, 3 * rows], [speed] * 3))) == []


def test_a_site_without_rows_is_taken_to_be_as_fast_as_the_others() -> None:
    directory = homes(uniform(2, 2), 0, 0, 0, 0)
    stats = round_of(directory, [30, 20, 25, 25], [100, 100])
    assert [(made.change, made.gain) for made in FLUX.decide(stats)] == [(Move(Group(0, 2), 0, 1), pytest.approx(0.3))]


@pytest.mark.parametrize(
    "stats",
    [
        round_of(uniform(1), [10] * 16, [100]),
        round_of(uniform(2), [0] * 32, [100, 100]),
        round_of(TWO_SITES, [30, 20, 25, 25], [100, 100], share=0.0),
    ],
    ids=["one site", "no rows", "no time"],
)
def test_there_is_nothing_to_decide(stats: RoundStats) -> None:
    with np.errstate(all="raise"):
        assert moves(FLUX.decide(stats)) == []


@settings(deadline=None)
@given(any_round())
def test_equally_busy_sites_are_left_alone(stats: RoundStats) -> None:
    alike = replace(stats, busy=np.full(stats.directory.sites, 0.5), share=np.ones(stats.directory.sites))
    assert moves(FLUX.decide(alike)) == []


@settings(deadline=None)
@given(any_round())
def test_a_site_gives_or_receives_at_most_once(stats: RoundStats) -> None:
    sites = [site for _, source, target in moves(FLUX.decide(stats)) for site in (source, target)]
    assert len(sites) == len(set(sites))


@settings(deadline=None)
@given(any_round())
def test_every_move_brings_two_sites_closer_together(stats: RoundStats) -> None:
    for made in FLUX.decide(stats):
        assert isinstance(made.change, Move)
        pair = [made.change.source, made.change.target]
        before = stats.utilisation[pair]
        after = would_be_busy(stats, applied(stats.directory, [made]))[pair] / stats.share[pair]
        assert abs(after[0] - after[1]) < before[0] - before[1]
        assert after[1] <= min(1.0, before[0]) + 1e-9


@settings(deadline=None)
@given(any_round())
def test_together_the_decisions_gain_what_the_slowest_site_does(stats: RoundStats) -> None:
    decisions = FLUX.decide(stats)
    assert all(made.gain >= 0 for made in decisions)
    slowest = would_be_busy(stats, applied(stats.directory, decisions)).max()
    assert prod(1 - made.gain for made in decisions) * stats.busy.max() == pytest.approx(slowest)


@settings(deadline=None)
@given(any_round(), st.randoms())
def test_the_numbers_of_sites_do_not_matter(stats: RoundStats, random) -> None:  # type: ignore[no-untyped-def]
    assume(len(set(stats.utilisation)) == stats.directory.sites)
    names = random.sample(range(stats.directory.sites), stats.directory.sites)
    expected = [(group, names[source], names[target]) for group, source, target in moves(FLUX.decide(stats))]
    assert moves(FLUX.decide(with_sites_renamed(stats, names))) == expected


# -- in a loop -------------------------------------------------------------------------------------------------------


def test_one_slow_site_costs_no_more_than_it_is_slower() -> None:
    before = cluster(slow_sites=1)
    after, moved = before.balanced(FLUX)
    assert before.efficiency == pytest.approx(8 * 500 / 7500)
    assert after.efficiency >= 0.9
    assert moved == 7  # of 16 groups 9 stay, one more than its share


@pytest.mark.parametrize("slow", range(9))
def test_throughput_falls_with_the_number_of_slow_sites_not_with_the_first(slow: int) -> None:
    after, _ = cluster(slow).balanced(FLUX)
    assert after.efficiency >= 1 / FLUX.imbalance


def test_small_groups_and_a_lower_threshold_come_closer_to_the_ideal() -> None:
    before = cluster(slow_sites=1, groups_per_site=64)
    usual, precise = (before.balanced(policy)[0] for policy in (FLUX, Flux(imbalance=1.05, busiest_receiver=0.97)))
    assert usual.efficiency < 0.9 < 0.95 < precise.efficiency


@pytest.mark.parametrize("seed", range(5))
def test_unequal_groups_settle_too(seed: int) -> None:
    chance = np.random.default_rng(seed)
    rates = chance.permutation(np.repeat([16.0, 1.0], [26, 102]))  # a fifth of the groups has four fifths of the rows
    before = Cluster(uniform(8), np.full(8, 1000.0), rates)
    after, moved = before.balanced(FLUX)
    assert moved
    assert before.efficiency < after.efficiency
    assert after.efficiency >= 1 / FLUX.imbalance


def test_it_says_how_long_rounds_are() -> None:
    assert isinstance(FLUX, Paced)
    assert FLUX.next_round(5.0, False, None) < 5.0
