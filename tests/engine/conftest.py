"""What tests of the engine have in common."""

from __future__ import annotations

import pytest

from tests.support.clock import SimulatedClock


@pytest.fixture
def clock() -> SimulatedClock:
    """The time of a loop, in the hands of the test that passes it to the loop."""
    return SimulatedClock()
