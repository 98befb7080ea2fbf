from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from even_case import KEY_BITS, World, changed, even_keys, figures_of, hot_keys, hot_range, world, zipf_groups
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.balance.controller import Controller
from penstock.balance.decisions import Merge, Move, SplitGroup
from penstock.balance.levelling import PlannedChange, begun, within, worthwhile
from penstock.balance.move_costs import MoveCosts
from penstock.balance.policies.even import Even
from penstock.balance.rules import Rules
from penstock.balance.stats import FloatArray, Loads, RoundStats
from penstock.state.directory import Directory, uniform

EVEN = Even(inertia=0.0)  # it believes what one round tells
SLOWED = [0.5] + [1.0] * 7


def predicted(stats: RoundStats, directory: Directory, speeds: list[float]) -> float:
    """How long the slowest site takes under another directory, were the halves of groups alike."""
    known = stats.directory
    rows = {group: int(count) for group, count in zip(known.groups, stats.loads.rows, strict=True)}
    times = np.zeros(directory.sites)
    for group, home in zip(directory.groups, directory.homes, strict=True):
        whole, parts = group, 1
        while whole not in rows:
            whole, parts = whole.parent, 2 * parts
        times[home] += rows[whole] / parts / (1000 * speeds[home])
    return float(times.max())


# -- one decision ----------------------------------------------------------------------------------------------------


def test_a_slowed_site_keeps_a_share_in_proportion_to_its_speed() -> None:
    end = world(SLOWED, even_keys()).after(EVEN)
    rows = end.stats().of_sites(end.stats().loads.rows)
    assert rows[0] == pytest.approx(160_000 * 0.5 / 7.5, rel=0.05)
    assert rows[1:] == pytest.approx(160_000 / 7.5, rel=0.05)


def test_a_decision_says_why_what_it_gains_and_what_it_costs() -> None:
    first = EVEN.decide(world(SLOWED, even_keys()).stats())[0]
    assert isinstance(first.change, Move)
    assert first.reason == "site 0 takes 40 s a round, 21.3 s would be balanced; this group takes 2.5 s"
    assert first.gain == pytest.approx(2.5 / 40)
    assert first.cost == 1250 * 64


def test_the_gains_add_up_to_what_is_measured() -> None:
    start = world(SLOWED, even_keys())
    end = start.after(EVEN)
    left = np.prod([1 - decision.gain for decision in end.history[0]])
    assert left == pytest.approx(end.stats().busy.max() / start.stats().busy.max(), rel=0.01)


def test_few_moves_suffice() -> None:
    (made,) = world(SLOWED, even_keys()).after(EVEN).history
    assert sum(isinstance(decision.change, Move) for decision in made) <= 9  # of sixteen groups, half and a bit


def test_nothing_to_do_below_five_percent() -> None:
    rows = np.full(64, 10_000)
    rows[:16] += 600  # a site with 6 % more: the ideal is 1.5 % more, so 4.2 % could be gained
    assert EVEN.decide(figures_of(uniform(4, 16), rows)) == []
    rows[:16] += 600
    assert EVEN.decide(figures_of(uniform(4, 16), rows)) != []


def test_few_rows_are_no_reason_to_move() -> None:
    rows = np.full(32, 3)
    rows[:8] = 4
    assert EVEN.decide(figures_of(uniform(4, 8), rows)) == []
    assert EVEN.decide(figures_of(uniform(4, 8), rows * 1000)) != []


def test_a_group_with_much_state_moves_only_if_that_pays() -> None:
    directory, rows = uniform(2, 4), [1500] * 4 + [500] * 4
    cheap = EVEN.decide(figures_of(directory, rows, state_bytes=[10**6] * 8, bytes_per_second=1e8))
    dear = EVEN.decide(figures_of(directory, rows, state_bytes=[10**12] * 8, bytes_per_second=1e8))
    assert cheap
    assert not any(isinstance(decision.change, Move) for decision in dear)


def test_a_group_whose_state_is_read_in_place_moves_however_much_it_is() -> None:
    directory, rows = uniform(2, 4), [1500] * 4 + [500] * 4
    made = EVEN.decide(figures_of(directory, rows, state_bytes=[10**12] * 8))
    assert any(isinstance(decision.change, Move) for decision in made)


def test_sites_that_fetch_at_the_same_time_wait_no_longer_than_one() -> None:
    costs = MoveCosts(rounds=1, seconds_per_move=0.5, seconds_per_byte=1e-8)
    assert costs.of_plan(3, np.asarray([0.0, 3e9, 0.0, 0.0])) == 31.5
    assert costs.of_plan(3, np.asarray([0.0, 1e9, 1e9, 1e9])) == 11.5


def test_of_groups_with_equal_work_the_one_with_least_state_moves() -> None:
    state = [10**7, 10**7, 10**6, 10**7, 10**7, 10**7, 10**7, 10**7]
    stats = figures_of(uniform(2, 4), [2000] * 4 + [1000] * 4, state_bytes=state, bytes_per_second=1e8)
    made = EVEN.decide(stats)
    assert made[0].change == Move(uniform(2, 4).groups[2], 0, 1)
    assert made[0].cost == 10**6


def test_no_site_gets_more_than_it_has_memory_for() -> None:
    stats = figures_of(uniform(4, 16), [2000] * 16 + [1000] * 48, state_bytes=[100] * 64, memory=1700)
    after = changed(stats.directory, EVEN.decide(stats))
    assert after != stats.directory
    held = np.bincount(after.homes, weights=[100 / 2 ** (g.depth - 6) for g in after.groups])
    assert held[1:].max() <= 1700


def test_what_rotates_within_a_round_is_left_alone() -> None:
    stats = figures_of(uniform(4, 16), [1100] * 16 + [1000] * 48)
    assert EVEN.decide(stats) != []
    rotating = replace(stats, share=stats.share * 2)  # the slowest of each epoch took twice as long as any in all
    assert EVEN.decide(rotating) == []


def test_a_hot_group_with_a_heavy_key_is_split_but_not_moved_before_it_is_measured() -> None:
    rows = [9000, *[500] * 63]
    made = EVEN.decide(figures_of(uniform(4, 16), rows, heaviest=[4000, *[5] * 63]))
    hot = uniform(4, 16).groups[0]
    assert made[0].change == SplitGroup(hot)
    assert not set(hot.halves) & {d.change.group for d in made if isinstance(d.change, Move)}


def test_a_warm_group_with_a_heavy_key_is_looked_at_more_closely() -> None:
    """Three groups of two sites are not hot, but too large to be evened out."""
    directory = Directory(2, uniform(1, 8).groups, (0, 0, 0, 1, 1, 1, 1, 1))
    rows = [2500, 2500, 2500, 1000, 1000, 1000, 1000, 1000]
    made = EVEN.decide(figures_of(directory, rows, heaviest=[1500, 1500, 1500, 1, 1, 1, 1, 1]))
    assert [str(decision.change) for decision in made] == ["split 000", "split 001", "split 010"]
    assert made[0].reason == "site 0 stays slow, and this group is much of its work"


def test_a_group_of_one_key_is_left_alone() -> None:
    rows = [30_000, *[0] * 15, *[500] * 48]
    assert EVEN.decide(figures_of(uniform(4, 16), rows, heaviest=[30_000, *[0] * 15, *[5] * 48])) == []


def test_what_is_pending_is_to_be_worked_off() -> None:
    pending = [1000] * 16 + [0] * 16
    made = EVEN.decide(figures_of(uniform(2, 16), [1000] * 32, pending=pending))
    assert {(d.change.source, d.change.target) for d in made if isinstance(d.change, Move)} == {(0, 1)}


def test_what_is_too_much_for_one_round_is_begun() -> None:
    directory = Directory(4, uniform(4, 1024).groups, (0,) * 4096)
    made = EVEN.decide(figures_of(directory, [1000] * 4096))
    assert len(made) == 16 * 4
    assert sum(decision.gain for decision in made) < 0.05


def test_steps_are_taken_as_long_as_they_bring_more_than_they_cost() -> None:
    move = Move(uniform(2, 4).groups[0], 0, 1)
    steps = [PlannedChange(move, slowest, 0.1, 0, 0, 10.0, 1.0) for slowest in (9.0, 9.0, 8.5, 8.45, 8.45)]
    assert worthwhile(steps, 10.0) == steps[:3]
    assert worthwhile(steps[3:], 8.5) == []


def test_a_plan_that_is_too_long_for_a_round_is_judged_as_a_whole() -> None:
    """Half of it costs a second and gains nothing yet; all of it would cost two, and gain three."""
    steps = [PlannedChange(Move(uniform(2, 4).groups[0], 0, 1), 10.0, 0.25, 0, 0, 10.0, 1.0)] * 4
    assert worthwhile(steps, 10.0) == []
    assert begun(steps, 0.5, 3.0) == steps
    assert begun(steps, 0.5, 1.9) == []
    assert begun(steps, 0.0, 3.0) == []


def test_no_more_is_asked_for_than_may_move_in_a_round_but_one_group_always() -> None:
    split = PlannedChange(SplitGroup(uniform(2, 4).groups[0]), 10.0, 0.0, 0, 0, 10.0, 1.0)
    move = PlannedChange(Move(uniform(2, 4).groups[0], 0, 1), 10.0, 0.0, 100, 0, 10.0, 1.0)
    steps = [split, move, move, move]
    assert [len(within(steps, budget)) for budget in (0, 300, 299, 100, 99, 1)] == [4, 4, 3, 2, 2, 2]
    assert within([], 10) == []


def test_a_large_group_is_split_also_where_all_is_even() -> None:
    held = [10, 10, 3 << 20, 10, 10, 10, 10, 10]
    made = EVEN.decide(figures_of(uniform(2, 4), [1000] * 8, state_rows=held))
    assert [decision.change for decision in made] == [SplitGroup(uniform(2, 4).groups[2])]


def test_the_groups_that_there_were_at_first_are_not_merged() -> None:
    assert EVEN.decide(figures_of(uniform(2, 128), [1000] * 256)) == []
    split = changed(uniform(2, 128), [])
    for group in split.groups[:10]:
        split = split.split(group)
    made = EVEN.decide(figures_of(split, [500] * 20 + [1000] * 246))
    assert {decision.change for decision in made} == {Merge(group) for group in uniform(2, 128).groups[:10]}


# -- properties ------------------------------------------------------------------------------------------------------

groups_rows = st.lists(st.integers(0, 20_000), min_size=32, max_size=32)
site_speeds = st.lists(st.sampled_from([0.3, 0.5, 1.0, 1.0, 1.2]), min_size=4, max_size=4)
any_homes = st.lists(st.integers(0, 3), min_size=32, max_size=32)


@settings(deadline=None)
@given(groups_rows, site_speeds, any_homes)
def test_the_slowest_site_never_gets_slower(rows: list[int], speeds: list[float], homes: list[int]) -> None:
    directory = Directory(4, uniform(4, 8).groups, tuple(homes))
    stats = figures_of(directory, rows, speeds=speeds)
    made = EVEN.decide(stats)
    assert list(made) == list(EVEN.decide(stats))
    before, after = (predicted(stats, d, speeds) for d in (directory, changed(directory, made)))
    moved = [decision for decision in made if isinstance(decision.change, Move)]
    # A site that had no rows is taken to have the average speed, so only sites with rows are known well.
    if set(np.asarray(homes)[np.asarray(rows) > 0]) == {0, 1, 2, 3}:
        assert after <= before * (0.951 if moved else 1)
    assert len({decision.change.group for decision in moved}) == len(moved)


@settings(deadline=None)
@given(st.lists(st.integers(1000, 1020), min_size=64, max_size=64), site_speeds)
def test_nothing_to_do_where_it_is_even(rows: list[int], speeds: list[float]) -> None:
    share = np.repeat(np.asarray(speeds), 16)
    assert EVEN.decide(figures_of(uniform(4, 16), (np.asarray(rows) * share).astype(np.int64), speeds=speeds)) == []


@settings(deadline=None)
@given(st.permutations(range(4)), st.integers(0, 100))
def test_the_numbers_of_sites_mean_nothing(order: list[int], seed: int) -> None:
    rows = np.random.default_rng(seed).integers(500, 5000, 32)
    speeds = np.asarray([0.41, 1.03, 0.83, 1.21])
    plain = figures_of(uniform(4, 8), rows, speeds=list(speeds))
    homes = tuple(order[home] for home in plain.directory.homes)
    permuted = figures_of(replace(plain.directory, homes=homes), rows, speeds=list(speeds[np.argsort(order)]))
    wanted = [d.change for d in EVEN.decide(plain)]
    wanted = [Move(c.group, order[c.source], order[c.target]) if isinstance(c, Move) else c for c in wanted]
    assert [d.change for d in EVEN.decide(permuted)] == wanted


# -- closed loop -----------------------------------------------------------------------------------------------------


def rests(end: World, rounds: int = 4) -> bool:
    return not any(end.after(EVEN, rounds).history[-rounds:])


@pytest.mark.parametrize("groups_per_site", [4, 16, 64])
@pytest.mark.parametrize("slow", range(1, 8))
def test_slowed_sites_end_close_to_the_ideal_in_two_rounds(slow: int, groups_per_site: int) -> None:
    end = world([0.5] * slow + [1.0] * (8 - slow), even_keys(), groups_per_site).after(EVEN, 2)
    assert end.evenness() >= 0.95
    assert rests(end)


def wandering() -> list[tuple[str, list[FloatArray]]]:
    return [
        ("80/20", [hot_range(first, 0.2, 0.8) for first in (0.1, 0.4, 0.7, 0.9)]),
        ("hot keys", [hot_keys(100, 0.9, seed) for seed in range(4)]),
        ("zipf 1.5", [zipf_groups(1.5, seed) for seed in range(4)]),
    ]


@pytest.mark.parametrize("heats", [heats for _, heats in wandering()], ids=[name for name, _ in wandering()])
def test_skew_that_wanders_is_evened_out_within_two_rounds(heats: list[FloatArray]) -> None:
    now = world([1.0] * 8, heats[0])
    for keys in heats:
        now = now.under(keys)
        assert now.evenness() < 0.85
        now = now.after(EVEN, 2)
        assert now.evenness() >= 0.95
        assert rests(now)
        assert len(now.directory.groups) <= 64 * 8


def test_a_narrow_range_whose_groups_have_unlike_halves_takes_a_few_rounds_more() -> None:
    start = world([1.0] * 8, hot_range(0.1, 0.01, 0.95))
    assert start.after(EVEN, 1).evenness() > 4 * start.evenness()
    end = start.after(EVEN, 6)
    assert end.evenness() >= 0.95
    assert rests(end)


def test_one_key_is_parted_from_all_others_and_then_nothing_moves() -> None:
    keys = even_keys(100_000)
    keys[5000] = 60_000
    end = world([1.0] * 8, keys).after(EVEN, 12)
    (home,) = {
        site
        for group, site in zip(end.directory.groups, end.directory.homes, strict=True)
        if group.prefix == 5000 >> (KEY_BITS - group.depth)
    }
    rows = end.stats().of_sites(end.stats().loads.rows)
    assert rows[home] <= 60_000 + 0.05 * 160_000 / 8
    assert rests(end)


def test_under_a_deadline_the_backlog_goes_away() -> None:
    start = replace(world(SLOWED, even_keys()), deadline=25.0, capacity=5000)
    end = start.after(EVEN, 10)
    assert start.stats().occupancy.max() > 0
    assert end.stats().occupancy.max() == 0
    assert end.evenness() >= 0.95
    assert not any(end.history[-5:])


def noisy(stats: RoundStats, rng: np.random.Generator) -> RoundStats:
    """As measured: rows come at random, groups' times vary by a fifth and those of sites by two percent."""
    rows, loads = rng.poisson(stats.loads.rows), stats.loads
    per_row = stats.busy / np.maximum(stats.of_sites(loads.rows), 1)
    seconds = rows * per_row[stats.homes] * rng.lognormal(0, 0.2, len(rows))
    busy = stats.of_sites(rows) * per_row * rng.lognormal(0, 0.02, len(stats.busy))
    heaviest = np.minimum(loads.heaviest, rows)
    loads = replace(loads, rows=rows, heaviest=heaviest, seconds=seconds, done=rows)
    return replace(stats, loads=loads, busy=busy)


@pytest.mark.parametrize("seed", range(5))
def test_with_noise_it_comes_close_and_hardly_anything_moves_after_that(seed: int) -> None:
    rng, now, moved, evenness = np.random.default_rng(seed), world(SLOWED, even_keys(400_000)), [], []
    for _ in range(30):
        made = EVEN.decide(noisy(now.stats(), rng))
        now = replace(now, directory=changed(now.directory, made))
        moved.append(sum(isinstance(decision.change, Move) for decision in made))
        evenness.append(now.evenness())
    assert min(evenness[3:]) >= 0.9
    assert np.mean(evenness[3:]) >= 0.94
    assert np.mean(moved[3:]) < 1  # of 128 groups


def test_in_a_controller_the_rules_let_it_through() -> None:
    now, controller = world(SLOWED, zipf_groups(1.5, 3)), Controller(EVEN, Rules(), 5.0)
    for _ in range(8):
        controller, outcome = controller.observe(now.stats()).decide()
        now = replace(now, directory=outcome.directory)
    assert now.evenness() >= 0.93  # to the last few percent it may rest: they would not be worth a move
    assert not outcome.accepted


def test_prices_are_paid_back_over_the_rounds_to_come() -> None:
    patient, hasty = Even(prices=MoveCosts(rounds=100)), Even(prices=MoveCosts(rounds=0.1))
    rows, state = [1500] * 4 + [500] * 4, [10**8] * 8
    stats = figures_of(uniform(2, 4), rows, state_bytes=state, bytes_per_second=1e8)
    assert any(isinstance(decision.change, Move) for decision in patient.decide(stats))
    assert not any(isinstance(decision.change, Move) for decision in hasty.decide(stats))


def test_full_sites_without_any_work_give_state_away() -> None:
    """A round in which nothing was worked on has a slowest site of zero seconds."""
    directory = replace(uniform(2, 8), homes=(0,) * 16)
    held = replace(Loads.none(16), state_bytes=np.array([0] * 14 + [1, 1]))
    stats = RoundStats(directory, 1, 1.0, held, np.zeros(2), np.zeros(2), np.zeros(2), memory=1)
    (decision,) = Even().decide(stats)
    assert decision.gain == 0
