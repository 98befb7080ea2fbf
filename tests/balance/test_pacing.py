from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
from flux_case import Cluster, applied, round_of
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.balance.decisions import Measured
from penstock.balance.policies.flux import Flux
from penstock.balance.policies.pacing import Pacing
from penstock.state.directory import uniform

PACING = Pacing(least=1.0, most=60.0, shorter=0.5, longer=2.0, chance=0.05)
PAID, LOST = Measured(0.2, 0.19), Measured(0.2, -0.1)

lengths = st.floats(0, 1000)
outcomes = st.none() | st.builds(Measured, st.floats(-1, 1), st.floats(-3, 1))


@pytest.mark.parametrize(
    ("moved", "measured", "expected"),
    [
        (False, None, 4.0),  # calm
        (True, None, 8.0),  # the first moves after a calm
        (True, PAID, 4.0),
        (False, PAID, 4.0),
        (True, LOST, 16.0),
        (False, LOST, 16.0),
    ],
)
def test_rounds_get_longer_where_moves_do_not_pay(moved: bool, measured: Measured | None, expected: float) -> None:
    assert PACING.next_length(8.0, moved, measured) == expected


@pytest.mark.parametrize(
    ("predicted", "measured", "paid"),
    [
        (0.4, 0.4, True),
        (0.4, 0.16, True),  # nearly half of it
        (0.4, 0.14, False),
        (0.0, -0.04, True),  # rounds are never quite alike
        (0.0, -0.06, False),
        (-0.2, -0.24, True),  # state had to move although it would cost time
        (-0.2, -0.26, False),
    ],
)
def test_half_of_what_was_promised_is_enough(predicted: float, measured: float, paid: bool) -> None:
    assert PACING.paid(Measured(predicted, measured)) is paid


def test_lengths_have_bounds() -> None:
    assert PACING.next_length(1.5, False, None) == 1.0
    assert PACING.next_length(40.0, True, LOST) == 60.0


def test_a_length_that_was_set_outside_the_bounds_stays_until_there_is_a_reason() -> None:
    assert PACING.next_length(0.0, False, PAID) == 0.0
    assert PACING.next_length(0.0, True, LOST) == 1.0
    assert PACING.next_length(100.0, True, LOST) == 100.0
    assert PACING.next_length(100.0, True, PAID) == 50.0


@settings(deadline=None)
@given(lengths, st.booleans(), outcomes)
def test_a_length_never_leaves_its_bounds(length: float, moved: bool, measured: Measured | None) -> None:
    following = PACING.next_length(length, moved, measured)
    assert min(length, PACING.least) <= following <= max(length, PACING.most)


@settings(deadline=None)
@given(lengths, st.booleans(), outcomes, st.floats(0, 1))
def test_a_better_outcome_never_makes_rounds_longer(
    length: float, moved: bool, measured: Measured | None, more: float
) -> None:
    if measured is not None:
        better = replace(measured, measured=measured.measured + more)
        assert PACING.next_length(length, moved, better) <= PACING.next_length(length, moved, measured)


# -- figure 8 of the Flux paper: short rounds see only chance, and move groups back and forth --------------------------


class Fixed(Pacing):
    def next_length(self, length: float, moved: bool, measured: Measured | None) -> float:
        return length


@dataclass(frozen=True)
class Outcome:
    rows: int
    moves: int


def skewed(chance: np.random.Generator) -> Cluster:
    """128 groups over 8 sites; at every halving of the hash space one half has 65 % of the rows."""
    rates = np.ones(1)
    for _ in range(7):
        first = np.where(chance.random(len(rates)) < 0.5, 0.65, 0.35)
        rates = np.stack((rates * first, rates * (1 - first)), axis=1).ravel()
    return Cluster(uniform(8), np.full(8, 200.0), rates)


def two_minutes(pacing: Pacing, length: float, seed: int) -> Outcome:
    """Rows come by chance, and every move halts the slowest site for 0.3 seconds."""
    policy, chance = Flux(pacing=pacing), np.random.default_rng(seed)
    now, clock, total, moves, halt = skewed(chance), 0.0, 0, 0, 0.0
    hope: tuple[float, float] | None = None  # what the last moves were to gain, and the pace before them
    while clock < 120:
        rows = chance.poisson(now.rates / now.rates.sum() * now.throughput * max(0.0, length - halt))
        clock, total = clock + max(length, halt), total + int(rows.sum())
        stats = round_of(now.directory, rows, now.speeds)
        decisions = policy.decide(stats)
        pace = (stats.busy.max() + halt) / max(1, rows.sum())
        measured = Measured(hope[0], 1 - pace / hope[1]) if hope else None
        hope = (1 - float(np.prod([1 - made.gain for made in decisions])), pace) if decisions else None
        length = policy.next_round(length, bool(decisions), measured)
        now = replace(now, directory=applied(now.directory, decisions))
        moves, halt = moves + len(decisions), 0.3 * len(decisions)
    return Outcome(total, moves)


@pytest.mark.parametrize("seed", range(3))
def test_tuned_rounds_do_about_as_well_as_the_best_fixed_ones_whatever_they_begin_with(seed: int) -> None:
    fixed = {length: two_minutes(Fixed(), length, seed) for length in (0.25, 1.0, 5.0, 15.0)}
    best = max(outcome.rows for outcome in fixed.values())
    assert fixed[0.25].rows < 0.5 * best
    for begin in (0.25, 5.0):
        tuned = two_minutes(Pacing(), begin, seed)
        assert tuned.rows > 0.85 * best
        assert tuned.moves < fixed[0.25].moves / 4
