from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from control_case import BEGAN, Clock

from penstock.control.requests import Control


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def control(tmp_path: Path, clock: Clock) -> Iterator[Control]:
    opened = Control(tmp_path, BEGAN, clock)
    yield opened
    opened.close()
