"""What the experiments on adapting make of timelines that were written by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from penstock_bench.adapt import degrading, policies, rotating, slowed
from penstock_bench.adapt.lanes import Lane, ideal, slow_sites
from penstock_bench.adapt.timeline import ChangeSeen, EpochSeen, Timeline, recovery
from penstock_bench.experiments.by_name import ADAPTING, spelled_out
from penstock_bench.experiments.experiment import Setting


def timeline(rates: list[float], changes: tuple[ChangeSeen, ...] = (), equal: bool = True) -> Timeline:
    """An epoch a second, of so many rows."""
    epochs = tuple(EpochSeen(n + 1.0, 1.0, int(rate), 0, int(rate), 0, 8) for n, rate in enumerate(rates))
    return Timeline(epochs, changes, 0, 0.3, equal)


def test_a_rate_counts_epochs_at_the_borders_in_part() -> None:
    seen = timeline([100, 200, 400])
    assert seen.rate(0, 3) == pytest.approx(700 / 3)
    assert seen.rate(0.5, 1.5) == pytest.approx(150)
    assert seen.curve(1.0) == [(0.5, 100), (1.5, 200), (2.5, 400)]
    assert timeline([]).seconds == 0.0


def test_rows_come_in_until_the_last_epoch_that_has_some() -> None:
    seen = timeline([100, 200, 0])
    assert seen.input_seconds == 2.0
    assert timeline([0, 0, 0]).input_seconds == 3.0


def test_recovery_is_when_the_rate_is_back_and_stays() -> None:
    curve = [(0.5, 100.0), (1.5, 50.0), (2.5, 95.0), (3.5, 60.0), (4.5, 95.0), (5.5, 96.0)]
    assert recovery(curve, 1.0, 90.0) == 3.5
    assert recovery(curve, 1.0, 99.0) is None
    assert recovery(curve, 0.0, 40.0) == 0.0
    assert recovery([(0.5, 100.0), (1.5, 100.0), (2.5, 50.0), (3.5, 99.0), (4.5, 99.0)], 0.0, 90.0) == 3.5


@pytest.mark.parametrize(("slow", "part"), [(0, 1.0), (1, 0.9375), (8, 0.5)])
def test_the_ideal_is_the_sum_of_the_speeds(slow: int, part: float) -> None:
    assert ideal(slow) == part


MOVED = tuple(ChangeSeen(at, "move 0b1 from site 0 to site 1", "") for at in (5.0, 12.0, 13.0))


def test_a_slowed_site_is_judged_by_the_ideal(tmp_path: Path) -> None:
    static = timeline([1000.0] * 10 + [500.0] * 20)
    adapted = timeline([1000.0] * 10 + [500.0] * 5 + [900.0] * 25, (*MOVED, ChangeSeen(14.0, "split 0b1", "")))
    seen = [(Lane("static"), static), (Lane("even"), adapted)]
    found = slowed.finding(seen, 10.0, Setting(pictures=tmp_path))
    assert [round(float(str(r["of_ideal"])), 2) for r in found.records] == [0.53, 0.96]
    assert [r["recovery_seconds"] for r in found.records] == [None, 5.5]
    assert [r["moves"] for r in found.records] == [0, 2]
    assert found.holds
    assert [picture.suffix for picture in found.pictures] == [".png"]
    wrong = [seen[0], (Lane("even"), timeline([1000.0] * 10 + [500.0] * 20, equal=False))]
    assert not slowed.finding(wrong, 10.0, Setting()).equal
    assert not slowed.finding(wrong, 10.0, Setting()).bars[0].reached
    turns = slowed.finding([*seen, *wrong, *seen], 10.0, Setting())
    assert [round(float(str(r["of_ideal"])), 2) for r in turns.records] == [0.53, 0.96]
    assert [round(float(str(r["least"])), 2) for r in turns.records] == [0.53, 0.53]
    assert not turns.equal


def test_the_end_of_the_input_is_no_fall() -> None:
    """The input ends within an interval, the rest of which is left to what is pending."""
    long = 0.925
    epochs = [EpochSeen((n + 1) * long, long, 1000 if n < 18 else 0, 0, 1000 if n < 18 else 1, 0, 8) for n in range(25)]
    found = slowed.finding([(Lane("even"), Timeline(tuple(epochs), (), 0, 0.3, True))], 10.0, Setting())
    assert found.records[0]["recovery_seconds"] == 0.0


def test_degrading_is_told_by_its_worst_point() -> None:
    seen = [
        (Lane(policy, slow_sites(count)), timeline([1000 * rate] * 20))
        for count, static, own in ((0, 1.0, 0.99), (4, 0.5, 0.7), (8, 0.5, 0.5))
        for policy, rate in (("static", static), ("even", own))
    ]
    found = degrading.finding(seen, Setting())
    assert found.bars[0].value == pytest.approx(0.7 / 0.75)
    assert [r["slowed"] for r in found.records] == [0, 0, 4, 4, 8, 8]
    assert found.holds


def test_a_disturbance_goes_from_site_to_site() -> None:
    turns = rotating.rotation(20.0)
    assert [(one.site, one.begin, one.end) for one in turns[7:9]] == [(7, 14.0, 16.0), (0, 16.0, 18.0)]
    assert len(turns) == 10


def test_buffers_are_judged_by_the_ideal_of_one_slow_site(tmp_path: Path) -> None:
    lanes = [
        (Lane("static", buffer_rows=None), 1000.0),
        (Lane("static", turns := rotating.rotation(4), buffer_rows=None), 550.0),
    ]
    lanes.append((Lane("static", turns, buffer_rows=25_000), 900.0))
    found = rotating.finding([(lane, timeline([rate] * 20)) for lane, rate in lanes], Setting(pictures=tmp_path))
    assert [round(float(str(r["of_ideal"])), 2) for r in found.records] == [1.0, 0.59, 0.96]
    assert found.holds


def test_adapt_is_all_of_its_experiments() -> None:
    assert spelled_out(["adapt-slowed", "adapt", "expiry"])[0] == "adapt-slowed"
    assert set(spelled_out(["adapt"])) == {experiment.name for experiment in ADAPTING}
    assert len(spelled_out(["adapt", "adapt"])) == len(ADAPTING)


def test_the_default_policy_is_judged_by_the_best_one_case_by_case(tmp_path: Path) -> None:
    """By medians: one turn that was disturbed by something else does not count."""
    rates = {"static": 50.0, "even": 96.0}
    tried = [
        policies.Tried(case, policy, rates.get(policy, 100.0) * (0.1 if turn == 2 else 1.0), 3, 0.4, True)
        for turn in range(5)
        for case in ("none", "rotating")
        for policy in policies.POLICIES
    ]
    found = policies.finding(tried, Setting(pictures=tmp_path))
    own = [record for record in found.records if record["policy"] == "even"]
    assert [(record["case"], record["of_best"], record["least"]) for record in own] == [
        ("none", pytest.approx(0.96), pytest.approx(9.6)),
        ("rotating", pytest.approx(0.96), pytest.approx(9.6)),
    ]
    assert found.holds
    slower = [replace(one, rate=one.rate * (0.9 if one.policy == "even" else 1.0)) for one in tried]
    assert not policies.finding(slower, Setting()).holds
    assert (tmp_path / "adapt-policies.png").exists()


def test_policies_are_compared_within_their_turns() -> None:
    """The machine gets slower from turn to turn, so medians of rates would tell which policy was lucky."""
    rates = {"even": (100.0, 80.0, 60.0), "static": (98.0, 88.0, 54.0)}
    tried = [
        policies.Tried("none", policy, rates.get(policy, (50.0, 40.0, 30.0))[turn], 0, 0.4, True)
        for turn in range(3)
        for policy in policies.POLICIES
    ]
    parts = policies.relative("none", tried)
    assert max(parts, key=parts.__getitem__) == "even"
    assert parts["flux"] / parts["even"] == pytest.approx(0.5, rel=0.02)


def test_each_turn_begins_with_another_policy() -> None:
    turns = list(policies.by_turns(6))
    assert [turns[5 * n] for n in range(6)] == [*policies.POLICIES, policies.POLICIES[0]]
    assert all(set(turns[5 * n : 5 * n + 5]) == set(policies.POLICIES) for n in range(6))
