"""Real deaths: a driver process gets SIGKILL at every fault point, and is started again.

Children are forked from a server that has imported everything, so that a death costs no more than a run.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
from dataclasses import replace
from multiprocessing.context import ForkServerContext
from pathlib import Path
from random import Random

import pytest

from penstock.storage.faults import FaultPoint
from penstock.testing.ways import Way
from tests.support.amounts import random_cases, some_of
from tests.support.crashes import (
    USUAL_POINTS,
    Fault,
    Place,
    another_way,
    assert_exact,
    finish,
    newest_manifest,
    random_scenario,
    run_in_child,
    seeded_scenario,
)
from tests.support.queries.data import SECOND
from tests.support.queries.operators import operator_queries

EACH_POINT = [(p, n) for p in USUAL_POINTS for n in (1, 3) if p is not FaultPoint.RECOVERED or n == 1]
AT_ONCE = "import sys; from tests.support.crashes import *; run_in_child(sys.argv[1], sys.argv[2], Way(), None)"


@pytest.fixture(scope="module")
def server() -> ForkServerContext:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["pytest", "tests.support.crashes"])
    return context


def _run(
    server: ForkServerContext, seed: str, place: Place, way: Way, fault: str | None, operator: str | None = None
) -> int | None:
    child = server.Process(target=run_in_child, args=(seed, str(place.root), way, fault, operator))
    child.start()
    child.join()
    return child.exitcode


@pytest.mark.parametrize(("point", "nth"), some_of(EACH_POINT, 2))
def test_kill(point: FaultPoint, nth: int, random: Random, tmp_path: Path, way: Way, server: ForkServerContext) -> None:
    place, seed, fault = Place(tmp_path), str(random.random()), str(Fault(point, nth, "kill"))
    way = replace(way, flush="eager")  # what is put off may all be published at once, and the third file never comes
    assert _run(server, seed, place, way, fault) == -signal.SIGKILL, f"{fault} was never reached"
    assert _run(server, seed, place, another_way(random, way), None) == 0
    assert_exact(random_scenario(Random(seed)), place, f"{fault}, {way}")


@pytest.mark.parametrize("case", random_cases(6))
def test_kills_in_a_row(case: int, random: Random, tmp_path: Path, way: Way, server: ForkServerContext) -> None:
    place, seed = Place(tmp_path), str(random.random())
    for _ in range(4):
        fault = Fault(random.choice(list(FaultPoint)), random.randint(1, 6), "kill")
        assert _run(server, seed, place, way, str(fault)) in (0, -signal.SIGKILL)
        way = another_way(random, way)
    scenario = random_scenario(Random(seed))
    finish(scenario, place, way)
    assert_exact(scenario, place)


@pytest.mark.parametrize("case", random_cases(8))
def test_kills_of_any_operator(case: int, random: Random, tmp_path: Path, way: Way, server: ForkServerContext) -> None:
    place, seed, operator = Place(tmp_path), str(random.random()), random.choice(list(operator_queries(SECOND)))
    for point in random.sample(list(FaultPoint), 2):
        assert _run(server, seed, place, way, str(Fault(point, 2, "kill")), operator) in (0, -signal.SIGKILL)
        way = another_way(random, way)
    scenario = seeded_scenario(seed, operator)
    finish(scenario, place, way)
    assert_exact(scenario, place, f"{operator}, {way}")


def test_fault_of_the_environment_kills_a_whole_process_once(random: Random, tmp_path: Path) -> None:
    place, seed, marker = Place(tmp_path / "run"), str(random.random()), tmp_path / "fired"
    faults = {"PENSTOCK_FAULT": "manifest.done@2", "PENSTOCK_FAULT_ONCE": str(marker)}
    command = [sys.executable, "-c", AT_ONCE, seed, str(place.root)]
    ends = [subprocess.run(command, env={**os.environ, **faults}, check=False).returncode for _ in range(2)]
    assert ends == [-signal.SIGKILL, 0]
    assert marker.exists()
    assert newest_manifest(place.checkpoint).finished
    assert_exact(random_scenario(Random(seed)), place)
