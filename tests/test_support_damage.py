"""Damaged checkpoints end in an error in three parts, or with the right answer."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from tests.support.damage.campaign import campaign, chosen, table
from tests.support.damage.tries import FAILURES, HARMLESS, NAMED, Tried, Try, all_tries

PARTS, TRIES = 4, 200


@pytest.mark.parametrize("part", range(PARTS))
def test_no_damage_to_a_checkpoint_is_silent_a_trace_or_a_hang(part: int, random: Random, tmp_path: Path) -> None:
    seed = random.random()
    found = list(campaign(chosen(TRIES // PARTS, seed), seed, tmp_path))
    failed = [f"{tried.outcome}: {one}\n{tried.detail}" for one, tried in found if tried.outcome in FAILURES]
    assert not failed, "\n\n".join(failed)
    outcomes = {tried.outcome for _, tried in found}
    assert {NAMED, HARMLESS} <= outcomes, table(found)


def test_all_kinds_of_damage_at_all_moments_are_more_than_a_thousand_tries() -> None:
    files, damages = ({getattr(one, name) for one in all_tries()} for name in ("file", "damage"))
    assert len(all_tries(2)) > 1200
    assert len(files) >= 15
    assert len(damages) >= 20
    assert len(set(chosen(1200, 1))) == 1200


def test_a_try_that_is_silent_shows_in_the_table() -> None:
    one = all_tries()[0]
    lines = table([(one, Tried("silent")), (Try("lock", "deleted", one.moment, 0), Tried(NAMED))]).splitlines()
    assert lines[-1].split() == ["all", "1", ".", "1", ".", ".", ".", ".", "."]
