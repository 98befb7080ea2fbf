"""`even` believes by and by that a site is slow, and little of what few epochs tell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from even_case import changed, even_keys, figures_of, world

from penstock.balance.decisions import Decision
from penstock.balance.policies.even import Even
from penstock.balance.stats import RoundStats
from penstock.state.directory import uniform
from penstock.state.hash_ranges import HASH_END

EVEN = Even(inertia=0.0)  # it believes what one round tells
SLOWED = [0.5] + [1.0] * 7


@pytest.mark.parametrize("groups_per_site", [4, 16, 64])
@pytest.mark.parametrize("slow", range(1, 8))
def test_sites_that_stay_slow_are_believed_to_be_so_by_and_by(slow: int, groups_per_site: int) -> None:
    start = world([0.5] * slow + [1.0] * (8 - slow), even_keys(), groups_per_site)
    first, end = start.after(Even()), start.after(Even(), 8)
    assert start.evenness() <= first.evenness() < 0.9
    assert end.evenness() >= 0.93  # what is nearer to the ideal is not worth a change
    assert not any(end.history[-2:])


def _given_away(stats: RoundStats, made: Sequence[Decision]) -> float:
    """The part of all hashes that site 0 gives to others."""
    kept = (part.high - part.low for part in changed(stats.directory, made).home_ranges_of(0))
    return 1 / stats.directory.sites - sum(kept) / HASH_END


def test_a_site_that_was_slow_for_a_round_soon_has_its_part_again() -> None:
    calm = world([1.0] * 8, even_keys())
    disturbed = replace(calm, speeds=np.asarray(SLOWED)).stats()
    at_once, damped = (_given_away(disturbed, policy.decide(disturbed)) for policy in (EVEN, Even()))
    assert 0 < damped <= 0.6 * at_once
    policy = Even().after(disturbed)
    for _ in range(5):
        assert policy.speeds[0] < 1
        policy = policy.after(calm.stats())
    assert policy.speeds[0] > 0.97


def test_another_number_of_sites_is_nothing_that_was_known_before() -> None:
    known = Even().after(world(SLOWED, even_keys()).stats())
    four = world([1.0] * 4, even_keys()).stats()
    assert known.after(four).speeds == pytest.approx([1.0] * 4)


def test_few_epochs_are_believed_less() -> None:
    rows = [1350] * 16 + [1200] * 48
    stats = figures_of(uniform(4, 16), rows)
    assert EVEN.decide(replace(stats, epochs=10)) != []
    assert EVEN.decide(replace(stats, epochs=1)) == []
