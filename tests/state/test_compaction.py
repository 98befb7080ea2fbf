"""Compaction keeps the number of runs small, and never mixes times so that expiry could not drop whole runs."""

from __future__ import annotations

from random import Random

import pytest

from penstock.state.hash_ranges import EVERYTHING
from penstock.state.runs import FAN, MOST_SLICES, RunFile, Slice, choose

WINDOW = 60


def piece(name: str, low: int, high: int, rows: int = 100) -> Slice:
    return Slice(RunFile(name, 0, rows, rows * 8, "", low, (low + high) // 2, high), EVERYTHING)


def merged(name: str, group: tuple[Slice, ...], alive_from: int) -> Slice:
    low = max(alive_from, min(s.run.min_time for s in group))
    return piece(name, low, max(s.run.max_time for s in group), sum(s.run.rows for s in group))


def test_a_few_small_neighbours_become_one() -> None:
    neighbours = [piece(f"r{n}", n, n + 1) for n in range(FAN)]
    assert choose(neighbours, 0, WINDOW) == [tuple(neighbours)]
    assert choose(neighbours[:-1], 0, WINDOW) == []


def test_what_is_merged_spans_at_most_half_of_what_is_alive() -> None:
    far_apart = [piece(f"r{n}", 20 * n, 20 * n + 1) for n in range(FAN)]
    for group in choose(far_apart, 0, WINDOW):
        assert max(s.run.max_time for s in group) - min(s.run.min_time for s in group) <= WINDOW // 2


def test_a_run_under_half_alive_is_rewritten() -> None:
    old = piece("old", 0, 100)
    assert choose([old], 60, WINDOW) == [(old,)]
    assert choose([old], 40, WINDOW) == []


def test_broad_runs_are_merged_with_each_other() -> None:
    broad = [piece(f"r{n}", n, 1000 + n) for n in range(FAN)]
    assert choose(broad, 0, WINDOW) == [tuple(broad)]


@pytest.mark.parametrize("disorder", [0, 10, 500])
def test_the_number_of_runs_stays_small_whatever_the_disorder(disorder: int) -> None:
    random, slices, most = Random(disorder), [], 0
    for epoch in range(600):
        now = 2 * epoch
        slices.append(piece(f"e{epoch}", now - disorder, now + 2, random.choice([10, 100, 5_000])))
        alive_from = now - disorder - WINDOW
        slices = [s for s in slices if s.run.max_time >= alive_from]
        for number, group in enumerate(choose(slices, alive_from, WINDOW)):
            slices = [s for s in slices if s not in group] + [merged(f"m{epoch}.{number}", group, alive_from)]
        most = max(most, len(slices))
    assert most <= MOST_SLICES


def test_no_slice_is_chosen_twice() -> None:
    random = Random(7)
    slices = [
        piece(f"r{n}", t := random.randrange(200), t + random.randrange(80), random.randrange(1, 9000))
        for n in range(60)
    ]
    chosen = [s for group in choose(slices, 50, WINDOW) for s in group]
    assert len(chosen) == len(set(chosen))
