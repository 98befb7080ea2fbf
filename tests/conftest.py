"""Every test that runs a query takes its way of running from one printed seed: PENSTOCK_SEED=n repeats a run."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from random import Random

import hypothesis
import pytest

from penstock.storage import durable
from penstock.storage.faults import disarm
from penstock.testing import Way, random_way
from tests.support.crashes import Place, Scenario, random_scenario

# The harness is not installed: processes that a test starts find it where this one does.
ROOT = str(Path(__file__).parents[1])
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [ROOT, os.environ.get("PYTHONPATH")]))

SEED = int(os.environ.get("PENSTOCK_SEED") or Random().randrange(10**9))
os.environ["PENSTOCK_SEED"] = str(SEED)  # the workers of this run take the same one

# A busy machine must not make a test fail: how long an example takes says nothing about whether it is right.
hypothesis.settings.register_profile("penstock", deadline=None)
hypothesis.settings.load_profile("penstock")


_SYNC_THREADS = durable._threads


def pytest_report_header() -> str:
    return f"PENSTOCK_SEED={SEED}"


@pytest.fixture
def random(request: pytest.FixtureRequest) -> Random:
    return Random(f"{SEED} {request.node.nodeid}")


@pytest.fixture
def way(random: Random) -> Way:
    return random_way(random)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """Where a scenario has its checkpoint and its outputs."""
    return Place(tmp_path)


@pytest.fixture
def scenario(random: Random) -> Scenario:
    """A query with its input, late and malformed rows included."""
    return random_scenario(random)


@pytest.fixture(autouse=True)
def _disarmed() -> Iterator[None]:
    """No test leaves a fault behind."""
    yield
    disarm()


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for no disk: no test cuts the power, and an exception loses no pages. So no thread has to wait either."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    monkeypatch.setattr(durable, "_threads", SameThread)


@pytest.fixture
def sync_threads(_quick: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are synced in threads, as outside of tests."""
    monkeypatch.setattr(durable, "_threads", _SYNC_THREADS)


class SameThread:
    """An executor that does all work at once, in the thread that asks for it."""

    def submit(self, work: Callable[[Path], None], path: Path) -> Future[None]:
        done = Future[None]()
        try:
            done.set_result(work(path))
        except OSError as error:
            done.set_exception(error)
        return done
