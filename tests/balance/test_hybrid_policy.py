from __future__ import annotations

from dataclasses import replace

from flux_case import any_round, applied, homes, moves, round_of
from hypothesis import given, settings

from penstock.balance.decisions import Measured
from penstock.balance.policies.flux import Flux
from penstock.balance.policies.hybrid import Hybrid
from penstock.balance.policies.memory import Memory
from penstock.balance.policies.pacing import Pacing
from penstock.balance.policy import Paced
from penstock.balance.stats import RoundStats
from penstock.state.directory import uniform

HYBRID = Hybrid()
DIRECTORY = homes(uniform(2, 2), 0, 0, 0, 1)  # three groups at site 0, one at site 1


def with_memory(memory: int) -> RoundStats:
    """Site 0 holds 60 bytes and has 100 rows, site 1 90 bytes and 20 rows."""
    return round_of(DIRECTORY, [60, 40, 0, 20], [100, 100], state=[30, 20, 10, 90], memory=memory)


def test_without_a_bound_only_work_counts() -> None:
    assert moves(HYBRID.decide(with_memory(0))) == moves(Flux().decide(with_memory(0))) == [(0, 0, 1)]


def test_a_group_moves_only_where_its_state_has_room() -> None:
    assert moves(HYBRID.decide(with_memory(120))) == [(0, 0, 1)]
    assert moves(HYBRID.decide(with_memory(119))) == [(1, 0, 1)]
    assert moves(HYBRID.decide(with_memory(100))) == []


def test_a_site_with_too_much_state_comes_first() -> None:
    stats = round_of(DIRECTORY, [10, 10, 10, 100], [100, 100], state=[70, 20, 10, 50], memory=90)
    assert moves(HYBRID.decide(stats)) == moves(Memory().decide(stats)) == [(1, 0, 1)]
    assert moves(HYBRID.decide(replace(stats, memory=0))) == []  # only one group at the busy site, and all its work


def test_a_full_site_does_not_keep_a_busy_one_from_giving_to_the_next() -> None:
    """The idlest site has hardly any work because it has hardly any memory: it would be the partner for good."""
    directory = homes(uniform(3, 2), 0, 0, 0, 0, 1, 2)
    stats = round_of(directory, [25, 25, 20, 20, 10, 40], [100] * 3, state=[10, 10, 10, 10, 95, 40], memory=100)
    assert moves(HYBRID.decide(stats)) == [(0, 0, 2)]
    assert moves(HYBRID.decide(replace(stats, memory=105))) == [(0, 0, 1)]


@settings(deadline=None)
@given(any_round())
def test_no_site_overflows_because_of_work(stats: RoundStats) -> None:
    before = stats.of_sites(stats.loads.state_bytes)
    after = replace(stats, directory=applied(stats.directory, HYBRID.decide(stats)))
    if stats.memory and before.max() <= stats.memory:
        assert after.of_sites(stats.loads.state_bytes).max() <= stats.memory


def test_it_says_how_long_rounds_are_as_for_work() -> None:
    policy = Hybrid(work=Flux(pacing=Pacing(longer=3.0)))
    assert isinstance(policy, Paced)
    assert policy.next_round(5.0, True, Measured(0.5, -0.5)) == 15.0
