"""What tests of the engine have in common."""

from __future__ import annotations

import pytest
from held_clock import Clock

from penstock.engine.driver import intake


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The time of the loop, in the hands of the test."""
    held = Clock()
    monkeypatch.setattr(intake, "time", held)
    return held
