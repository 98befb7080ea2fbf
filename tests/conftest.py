"""Every test that runs a query takes its way of running from one printed seed: PENSTOCK_SEED=n repeats a run."""

from __future__ import annotations

import os
from random import Random

import pytest

from penstock.testing import Way, random_way

SEED = int(os.environ.get("PENSTOCK_SEED") or Random().randrange(10**9))


def pytest_report_header() -> str:
    return f"PENSTOCK_SEED={SEED}"


@pytest.fixture
def random(request: pytest.FixtureRequest) -> Random:
    return Random(f"{SEED} {request.node.nodeid}")


@pytest.fixture
def way(random: Random) -> Way:
    return random_way(random)
