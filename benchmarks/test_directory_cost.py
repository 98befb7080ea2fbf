"""What a large directory costs, under pytest-benchmark: pytest benchmarks/test_directory_cost.py

Not part of the test suite. The controller must decide in under 50 ms with 10,000 groups, and a directory of as many,
scattered over the sites, must not make an epoch of 400,000 rows longer by more than 5 % than one of 32 groups does.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from time import perf_counter

import numpy as np
import pytest

import penstock as ps
from penstock.api.streams import Stream
from penstock.balance.controller import Controller
from penstock.balance.policies import policy_named
from penstock.balance.round import Counts, Figures, Loads, Round
from penstock.balance.rules import Rules
from penstock.checkpoint.store import Checkpoint
from penstock.config import Settings
from penstock.engine.adapting import Adaptation
from penstock.engine.inline import InlineExecutor
from penstock.engine.loop import EpochLoop
from penstock.engine.rescale import rehomed
from penstock.plan.options import CompileOptions
from penstock.plan.subqueries import compile_query
from penstock.state.directory import Directory, uniform

GROUPS, SITES = 10_000, 16
POLICIES = ["static", "flux", "diffusion", "elastic", "memory", "hybrid", "even"]
LONGEST_DECISION = 0.050  # seconds
ROWS, EPOCHS, PAIRS = 400_000, 6, 5
MOST_PART = 0.05  # of an epoch
Load = Callable[[np.random.Generator, Directory], tuple[Counts, Figures]]


def groups(count: int, sites: int, scattered: bool) -> Directory:
    """As many groups, neighbours at different sites or not."""
    directory = uniform(1, 1 << (count.bit_length() - 1))
    while len(directory.groups) < count:
        directory = directory.split(directory.groups[2 * (len(directory.groups) % (1 << (count.bit_length() - 1)))])
    even = [n * sites // count for n in range(count)]
    homes = np.random.default_rng(1).permutation(even) if scattered else even
    return Directory(sites, directory.groups, tuple(int(site) for site in homes))


# -- the controller --------------------------------------------------------------------------------------------------


def skewed(random: np.random.Generator, directory: Directory) -> tuple[Counts, Figures]:
    """Rows by Zipf's law, and equal sites."""
    rows = random.permutation(1.0 / (np.arange(len(directory.groups)) + 1)) * 4e6
    return rows.astype(np.int64) + 40, np.ones(directory.sites)


def slowed(random: np.random.Generator, directory: Directory) -> tuple[Counts, Figures]:
    """Rows that differ little, and some sites at half speed: many groups have to move."""
    return random.integers(200, 600, len(directory.groups)), 1.0 - 0.5 * (np.arange(directory.sites) % 3 == 0)


def calm(random: np.random.Generator, directory: Directory) -> tuple[Counts, Figures]:
    """Nothing but a few rows everywhere: groups may be merged, and sites given up."""
    return random.integers(45, 55, len(directory.groups)), np.full(directory.sites, 5.0)


def a_round(load: Load, directory: Directory, bounded: bool) -> Round:
    """Of eight epochs that took two seconds in all; `bounded`: there is not much room for pending rows and state."""
    rows, speeds = load(np.random.default_rng(2), directory)
    seconds = rows / (200_000 * speeds[directory.home_of])
    loads = Loads(rows, rows // 50, seconds, rows * 4, rows * 64, rows // 100, np.ones(len(rows), np.int64))
    busy, backlog, held = (
        np.bincount(directory.home_of, weights=figures, minlength=directory.sites)
        for figures in (seconds, loads.pending, loads.state_bytes)
    )
    capacity, memory = (int(backlog.mean() * 1.8), int(held.mean() * 1.2)) if bounded else (0, 0)
    return Round(directory, 8, 2.0, loads, busy, np.full(len(busy), busy.max()), backlog, capacity, memory)


@pytest.mark.parametrize("load", [skewed, slowed, calm])
@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.parametrize("bounded", [False, True])
def test_a_decision(benchmark, name: str, load: Load, bounded: bool) -> None:  # type: ignore[no-untyped-def]
    directory, rules = groups(GROUPS, SITES, scattered=True), Rules(most_sites=2 * SITES)

    def heard() -> tuple[tuple[Controller], dict[str, object]]:
        fresh = Directory(directory.sites, directory.groups, directory.homes)  # nothing of it is cached
        figures = a_round(load, fresh, bounded)
        return (Controller(policy_named(name), rules, 0.0).heard(figures),), {}

    _, verdict = benchmark.pedantic(Controller.decide, setup=heard, rounds=7)
    benchmark.extra_info["changes"] = len(verdict.accepted)
    assert benchmark.stats.stats.median < LONGEST_DECISION


# -- the epoch -------------------------------------------------------------------------------------------------------


def aggregate() -> Stream:
    calls = ps.read.calls(rows=ROWS * EPOCHS, rate=100_000, keys=200_000, split_rows=ROWS // 4)
    return calls.group_by("caller").window(ps.tumbling("10s")).agg(n=ps.count(), mean=ps.avg("duration"))


def join() -> Stream:
    half = ROWS // 2
    sides = [
        ps.read.calls(rows=half * EPOCHS, rate=50_000, keys=200_000, split_rows=half // 2, seed=n, name=f"side{n}")
        for n in (1, 2)
    ]
    return sides[0].join(sides[1], "caller", within=("4s", "4s"))


QUERIES = {"aggregate": aggregate, "join": join}


@contextmanager
def loop_over(stream: Stream, directory: Directory) -> Iterator[EpochLoop]:
    settings = Settings(master="inline", sites=directory.sites, rows_per_epoch=ROWS)
    with tempfile.TemporaryDirectory(prefix="penstock-directory-") as folder:
        query = compile_query(stream.to.files(f"{folder}/out").sink, CompileOptions.of(settings))
        checkpoint = Checkpoint.open(Path(folder) / "ck")
        loop = EpochLoop(query, checkpoint, InlineExecutor(), settings)
        loop._adaptation = Adaptation([directory for _ in loop.directories], [], lambda event: None)
        yield loop
        checkpoint.close()


def steps(loop: EpochLoop, watched: bool) -> Iterator[float]:
    """The seconds of each epoch but the first."""
    for number in range(EPOCHS):
        loop.watched = watched
        began = perf_counter()
        loop.step()
        if number:
            yield perf_counter() - began


@pytest.mark.parametrize("watched", [False, True])
@pytest.mark.parametrize("query", sorted(QUERIES))
def test_an_epoch(benchmark, query: str, watched: bool) -> None:  # type: ignore[no-untyped-def]
    """Epochs under the two directories by turns, so that whatever else the machine does meets both alike."""
    few, many = groups(32, SITES, scattered=False), groups(GROUPS, SITES, scattered=True)
    ratios: list[float] = []

    def pair() -> None:
        stream = QUERIES[query]()
        with loop_over(stream, few) as one, loop_over(stream, many) as other:
            ratios.extend(b / a for a, b in zip(steps(one, watched), steps(other, watched), strict=True))

    benchmark.pedantic(pair, rounds=PAIRS)
    benchmark.extra_info["the part that the directory adds"] = median(ratios) - 1
    assert median(ratios) < 1 + MOST_PART


def test_a_move_in_a_large_directory(benchmark) -> None:  # type: ignore[no-untyped-def]
    """Giving a group another home, and the state to the sites."""
    directory = groups(GROUPS, SITES, scattered=True)
    with loop_over(join(), directory) as loop:
        for _ in range(3):
            loop.step()
        state = loop.manifest.subqueries[0]
        group = directory.groups[4321]
        after = directory.moved(group, (directory.home(group) + 1) % SITES)
        changed = benchmark(lambda: rehomed(state, Directory(after.sites, after.groups, after.homes)))
    assert sum(len(site.slices) for site in changed.sites) < 3 * sum(len(site.slices) for site in state.sites)
