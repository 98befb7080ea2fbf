"""Groups that were moved lately stay where they are, and policies do not ask for anything else."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from even_case import even_keys, figures_of, hot_range, world
from flux_case import any_round
from hypothesis import given
from hypothesis import strategies as st

from penstock.balance.controller import Controller
from penstock.balance.decisions import Move, SplitGroup
from penstock.balance.policies import policy_named
from penstock.balance.rules import Rules
from penstock.balance.stats import RoundStats
from penstock.state.directory import uniform

MOVING = ["even", "flux", "diffusion", "memory", "hybrid"]


@pytest.mark.parametrize("name", MOVING)
@given(stats=any_round(), data=st.data())
def test_no_policy_moves_a_settled_group(name: str, stats: RoundStats, data: st.DataObject) -> None:
    count = len(stats.homes)
    in_cooldown = np.asarray(data.draw(st.lists(st.booleans(), min_size=count, max_size=count)))
    for made in policy_named(name).decide(replace(stats, in_cooldown=in_cooldown)):
        if isinstance(made.change, Move) and made.change.group in stats.directory.groups:
            assert not in_cooldown[stats.directory.place(made.change.group)]


def test_the_halves_of_a_settled_group_do_not_move_either() -> None:
    directory = uniform(2, 4)
    rows = [40_000, *[500] * 7]
    in_cooldown = np.asarray([True] + [False] * 7)
    hot = replace(figures_of(directory, rows, state_bytes=[1] * 8), in_cooldown=in_cooldown)
    made = [decision.change for decision in policy_named("even").decide(hot)]
    assert SplitGroup(directory.groups[0]) in made
    assert not [c for c in made if isinstance(c, Move) and str(c.group).startswith(str(directory.groups[0]))]


@pytest.mark.parametrize("name", ["even", "flux", "diffusion"])
def test_the_controller_tells_its_policy_what_is_in_cooldown(name: str) -> None:
    """A hot range that wanders: what has just come to a site would have to leave it again."""
    now, controller, refused, moved = world([1.0] * 4, even_keys()), None, [], 0
    for step in range(12):
        now = now.under(hot_range(step * 0.25 % 1, 0.1, 0.6))
        controller = controller or Controller(policy_named(name), Rules(cool_down=2), 0.0)
        controller, outcome = controller.observe(now.stats()).decide()
        refused += [refusal.rule for refusal in outcome.refused]
        moved += sum(isinstance(made.change, Move) for made in outcome.accepted)
        now = replace(now, directory=outcome.directory)
    assert moved > 3
    assert "it was moved recently" not in refused
