"""What a large directory costs, under pytest-benchmark: pytest bench/kernels/test_directory_cost.py

Not part of the test suite. The controller must decide in under 50 ms with 10,000 groups, and a directory of as many, a
tenth or all of them away from where they began, must not make an epoch of 400,000 rows longer by more than 5 % than one
of 32 groups does, whether or not sites tell what each group came to.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from time import process_time

import numpy as np
import pytest

import penstock as ps
from penstock.api.streams import Stream
from penstock.balance.controller import Controller
from penstock.balance.policies import policy_named
from penstock.balance.rules import Rules
from penstock.balance.stats import FloatArray, IntArray, Loads, RoundStats
from penstock.checkpoint.store import Checkpoint
from penstock.engine.driver.adapt import Adaptation
from penstock.engine.driver.executor import InlineExecutor
from penstock.engine.driver.loop import EpochLoop
from penstock.engine.driver.move_state import rehomed
from penstock.engine.driver.recovery import recover
from penstock.plan.compile.subqueries import compile_query
from penstock.plan.options import CompileOptions
from penstock.settings import Settings
from penstock.spark.workers.allocator import keep_freed_memory
from penstock.state.directory import Directory, groups_of_depths

GROUPS, SITES = 10_000, 16
POLICIES = ["static", "flux", "diffusion", "elastic", "memory", "hybrid", "even"]
LONGEST_DECISION = 0.050  # seconds
ROWS, EPOCHS, TIMES = 400_000, 6, 9
MOST_PART = 0.05  # of an epoch
Load = Callable[[np.random.Generator, Directory], tuple[IntArray, FloatArray]]


def groups(count: int, moved: float) -> Directory:
    """As many groups, a part of which is no longer at the site that it began at."""
    least = count.bit_length() - 1
    shallow = (2 << least) - count  # the others are one bit deeper
    depths = [least] * shallow + [least + 1] * (count - shallow)
    random, homes = np.random.default_rng(1), np.arange(count) * SITES // count
    away = random.random(count) < moved
    homes[away] = random.permutation(homes[away])
    return Directory(SITES, groups_of_depths(depths), tuple(homes.tolist()))


# -- the controller --------------------------------------------------------------------------------------------------


def skewed(random: np.random.Generator, directory: Directory) -> tuple[IntArray, FloatArray]:
    """Rows by Zipf's law, and equal sites."""
    rows = random.permutation(1.0 / (np.arange(len(directory.groups)) + 1)) * 4e6
    return rows.astype(np.int64) + 40, np.ones(directory.sites)


def slowed(random: np.random.Generator, directory: Directory) -> tuple[IntArray, FloatArray]:
    """Rows that differ little, and some sites at half speed: many groups have to move."""
    return random.integers(200, 600, len(directory.groups)), 1.0 - 0.5 * (np.arange(directory.sites) % 3 == 0)


def calm(random: np.random.Generator, directory: Directory) -> tuple[IntArray, FloatArray]:
    """Nothing but a few rows everywhere: groups may be merged, and sites given up."""
    return random.integers(45, 55, len(directory.groups)), np.full(directory.sites, 5.0)


def a_round(load: Load, directory: Directory, bounded: bool) -> RoundStats:
    """Of eight epochs that took two seconds in all; `bounded`: there is not much room for pending rows and state."""
    rows, speeds = load(np.random.default_rng(2), directory)
    seconds = rows / (200_000 * speeds[directory.home_of])
    loads = replace(
        Loads.none(len(rows)),
        rows=rows,
        heaviest=rows // 50,
        seconds=seconds,
        state_rows=rows * 4,
        state_bytes=rows * 64,
        pending=rows // 100,
        last_used=np.ones(len(rows), np.int64),
        done=rows,
        output=rows,
    )
    busy, backlog, held = (
        np.bincount(directory.home_of, weights=stats, minlength=directory.sites)
        for stats in (seconds, loads.pending, loads.state_bytes)
    )
    capacity, memory = (int(backlog.mean() * 1.8), int(held.mean() * 1.2)) if bounded else (0, 0)
    return RoundStats(directory, 8, 2.0, loads, busy, np.full(len(busy), busy.max()), backlog, capacity, memory)


@pytest.mark.benchmark(timer=process_time)  # how long others keep it from the processor does not count
@pytest.mark.parametrize("load", [skewed, slowed, calm])
@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.parametrize("bounded", [False, True])
def test_a_decision(benchmark, name: str, load: Load, bounded: bool) -> None:  # type: ignore[no-untyped-def]
    directory, rules = groups(GROUPS, moved=1.0), Rules(most_sites=2 * SITES)

    def observe() -> tuple[tuple[Controller], dict[str, object]]:
        fresh = Directory(directory.sites, directory.groups, directory.homes)  # nothing of it is cached
        stats = a_round(load, fresh, bounded)
        return (Controller(policy_named(name), rules, 0.0).observe(stats),), {}

    _, outcome = benchmark.pedantic(Controller.decide, setup=observe, rounds=7)
    benchmark.extra_info["changes"] = len(outcome.accepted)
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
        loop = EpochLoop(recover(query, checkpoint, settings), InlineExecutor())
        loop._adaptation = Adaptation([directory] * len(loop.directories), [()] * len(loop.directories), [], print)
        yield loop
        checkpoint.close()


def seconds_of(loop: EpochLoop, watched: bool) -> float:
    """Of this process: how long others keep it from the processor does not count."""
    loop.watched = watched
    began = process_time()
    loop.step()
    return process_time() - began


@pytest.mark.parametrize("moved", [0.1, 1.0])
@pytest.mark.parametrize("watched", [False, True])
@pytest.mark.parametrize("query", sorted(QUERIES))
def test_an_epoch(benchmark, query: str, watched: bool, moved: float) -> None:  # type: ignore[no-untyped-def]
    """Epochs under the two directories by turns; what each takes at best, without the first, which warms."""
    few, many = groups(32, moved=0), groups(GROUPS, moved)
    stream, pairs = QUERIES[query](), list[list[tuple[float, float]]]()
    keep_freed_memory()  # as workers do

    def run() -> None:
        with loop_over(stream, few) as one, loop_over(stream, many) as other:
            pairs.append([(seconds_of(one, watched), seconds_of(other, watched)) for _ in range(EPOCHS)])

    benchmark.pedantic(run, rounds=TIMES)
    at_best = np.asarray(pairs).min(axis=0)[1:].sum(axis=0)
    part = float(at_best[1] / at_best[0]) - 1
    benchmark.extra_info["the part that the directory adds"] = part
    print(f"{query}{', watched' * watched}, {moved:.0%} moved: {at_best[0]:.3f} s and {at_best[1]:.3f} s, {part:+.1%}")
    assert part < MOST_PART


def test_a_move_in_a_large_directory(benchmark) -> None:  # type: ignore[no-untyped-def]
    """Giving a group another home, and the state to the sites."""
    directory = groups(GROUPS, moved=1.0)
    with loop_over(join(), directory) as loop:
        for _ in range(3):
            loop.step()
        state = loop.manifest.subqueries[0]
        group = directory.groups[4321]
        after = directory.moved(group, (directory.home(group) + 1) % SITES)
        changed = benchmark(lambda: rehomed(state, Directory(after.sites, after.groups, after.homes)))
    assert sum(len(site.slices) for site in changed.sites) < 3 * sum(len(site.slices) for site in state.sites)
