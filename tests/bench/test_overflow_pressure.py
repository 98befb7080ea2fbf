"""The experiments in which sites lose memory or speed: what they make of runs written by hand, and small runs of
their own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest

from penstock.balance.decisions import Decision, Move, Park
from penstock.balance.policies.memory import Memory
from penstock.balance.policies.static import Static
from penstock.balance.policy import Paced
from penstock.balance.stats import Loads, RoundStats
from penstock.state.directory import uniform
from penstock_bench.experiments.by_name import spelled_out
from penstock_bench.experiments.experiment import Finding, Setting
from penstock_bench.overflow import halved, mixed, pressure
from penstock_bench.overflow.charged import Charges
from penstock_bench.overflow.pressed import pressed
from penstock_bench.overflow.pressure import QUICK, UNDISTURBED
from penstock_bench.overflow.seen import OverflowEpoch, OverflowSeen
from penstock_bench.overflow.spilling import SpillingFlux

MB = 1_000_000


def seen(results: Sequence[int], length: float = 1.0, held: int = 0, equal: bool = True) -> OverflowSeen:
    """An epoch for each number of results, and one without input."""
    epochs = [OverflowEpoch(9, made, (held, 0), (0, 0), (0.5, 0.5), 1.0, length) for made in results]
    return OverflowSeen((*epochs, OverflowEpoch(0, 5, (0, 0), (0, 0), (0.5, 0.5), 1.0, length)), equal)


UNTIL, AFTER = QUICK.since, QUICK.epochs - QUICK.since
STEADY = seen([100] * QUICK.epochs)
LATE = seen([100] * UNTIL + [60, 140] * (AFTER // 2), 1.25)
SLOW = seen([100] * QUICK.epochs, 2.0)


def test_results_wait_until_a_run_has_as_many_as_the_undisturbed_one() -> None:
    assert pressure.waiting(LATE, STEADY)[UNTIL - 1 : UNTIL + 3] == [0, 40, 0, 40]
    assert pressure.waiting(seen([110, 80, 100]), seen([100, 100, 100])) == [0, 10, 10]
    assert pressure.delay(LATE, STEADY, QUICK) == pytest.approx(20 * 1.25 / 100)  # 20 wait on average
    assert pressure.delay(STEADY, STEADY, QUICK) == 0


def test_rates_are_those_of_the_end_by_the_simulated_clock() -> None:
    faster = seen([10] * QUICK.steady_from + [100] * (QUICK.epochs - QUICK.steady_from), 0.5)
    assert pressure.steady(faster, QUICK) == pytest.approx(200)
    assert pressure.steady(STEADY, QUICK) == pytest.approx(100)


def test_an_epoch_is_above_memory_if_the_site_holds_more_than_is_left_to_it() -> None:
    above = seen([100] * QUICK.epochs, held=QUICK.memory * 6 // 10)
    assert pressure.record("a", above, STEADY, QUICK)["over"] == 1.0
    assert pressure.record(UNDISTURBED, above, STEADY, QUICK)["over"] == 0.0


def test_moves_must_bring_throughput_back_and_keep_results_from_waiting() -> None:
    def found(moved: OverflowSeen) -> Finding:
        turns = {UNDISTURBED: [STEADY], halved.PARKED: [LATE], halved.MOVED: [moved]}
        return halved.finding(turns, Setting(quick=True))

    assert found(STEADY).holds
    assert [bar.reached for bar in found(LATE).bars] == [False, False, False]
    assert not found(seen([100] * QUICK.epochs, equal=False)).equal


def test_the_policy_for_both_is_compared_with_each_of_the_two() -> None:
    def found(both: OverflowSeen) -> Finding:
        turns = {UNDISTURBED: [STEADY], mixed.WORK: [LATE], mixed.STATE: [SLOW], mixed.BOTH: [both]}
        return mixed.finding(turns, Setting(quick=True))

    assert found(seen([100] * QUICK.epochs, 1.25)).holds
    assert [bar.reached for bar in found(LATE).bars] == [True, True, False]
    assert [bar.reached for bar in found(SLOW).bars] == [False, False, True]


def round_with(last_used: int) -> RoundStats:
    """Two sites that hold 60 and 10 MB, and may hold 100."""
    directory, state = uniform(2, 2), np.array([40, 20, 5, 5]) * MB
    loads = replace(Loads.none(4), state_bytes=state, last_used=np.full(4, last_used))
    ones = np.ones(2)
    return RoundStats(directory, 1, 1.0, loads, ones, ones, np.zeros(2), memory=100 * MB, may_park=True)


@dataclass(frozen=True)
class Looking(Static):
    """A policy that notes what each site seems to hold, in megabytes."""

    noted: list[list[float]] = field(default_factory=list)

    def decide(self, stats: RoundStats) -> Sequence[Decision]:
        self.noted.append([float(size) / MB for size in stats.held])
        return ()


def test_a_policy_sees_the_memory_that_is_taken_from_its_epoch_on() -> None:
    looking = Looking()
    for epoch in (6, 7):
        pressed(looking, since=7).decide(round_with(epoch))
    assert looking.noted == [[60, 10], [110, 10]]


def test_a_policy_under_pressure_sets_the_length_of_rounds_as_before() -> None:
    policy = pressed(Memory(), 7)
    assert isinstance(policy, Paced)
    assert policy.next_round(5.0, False, None) == Memory().next_round(5.0, False, None)
    assert not isinstance(pressed(Static(), 7), Paced)
    assert policy.name == "memory"
    assert any(isinstance(made.change, Move) for made in policy.decide(round_with(7)))


def test_sites_under_flux_park_by_themselves() -> None:
    made = pressed(SpillingFlux(), 7).decide(round_with(7))
    assert [type(one.change) for one in made] == [Park]
    assert not pressed(SpillingFlux(), 7).decide(round_with(6))


def test_only_slowed_sites_take_longer_and_only_from_their_epoch_on() -> None:
    charges = Charges(1.0, 1.0, slowed=(1,), since=5, times=3.0)
    assert [charges.factor(site, epoch) for site in (0, 1) for epoch in (4, 5)] == [1, 1, 1, 3]


def test_half_of_the_memory_is_taken(tmp_path: Path) -> None:
    found = halved.HALVED.measure(Setting(quick=True, work=tmp_path, pictures=tmp_path, tell=lambda _: None))
    undisturbed, parked, moved = found.records
    assert found.equal
    assert [record["pushes"] for record in (undisturbed, moved)] == [0, 0]
    assert parked["moves"] == 0
    assert int(str(parked["pushes"])) > 1
    assert int(str(moved["moves"])) > 1
    assert float(str(moved["steady"])) > float(str(parked["steady"]))
    assert {picture.name for picture in found.pictures} == {
        "overflow-halved.png", "overflow-halved-waits.png", "overflow-halved-memory.png"
    }  # fmt: skip


def test_sites_work_at_the_same_time_by_the_simulated_clock(tmp_path: Path) -> None:
    """A site that is half as fast makes epochs nearly twice as long, of three other sites nothing is added."""
    found = mixed.MIXED.measure(Setting(quick=True, work=tmp_path, tell=lambda _: None))
    lasted = {str(record["run"]): float(str(record["seconds"])) for record in found.records}
    rows, results = 3 * QUICK.rows * QUICK.epochs, 79_181
    alone = (rows * pressure.CHARGES.row + results * pressure.CHARGES.result) / QUICK.sites
    assert found.equal
    assert alone <= lasted[UNDISTURBED] < 1.5 * alone
    assert lasted[UNDISTURBED] < lasted[mixed.WORK] < 2 * lasted[UNDISTURBED]


def test_they_are_part_of_the_experiments_on_overflow() -> None:
    assert spelled_out(["overflow"])[-2:] == ["overflow-halved", "overflow-mixed"]
