"""Sites that are slowed for experiments."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from penstock.engine.drag import VARIABLE, Drag, Slowed, current_drag, write_drag

DRAG = Drag(began=1000.0, row_seconds=0.01, slowed=(Slowed(2, 5.0, 8.0), Slowed(2, 7.0, 9.0, again=3.0)))


@pytest.mark.parametrize(
    ("site", "now", "pause"),
    [(0, 1006.0, 1.0), (2, 1004.9, 1.0), (2, 1005.0, 2.5), (2, 1007.5, 7.0), (2, 1008.0, 5.5), (2, 1009.0, 1.0)],
)
def test_a_slowed_site_takes_as_long_again_while_it_is_slowed(site: int, now: float, pause: float) -> None:
    assert DRAG.pause(site, rows=100, took=0.5, now=now) == pytest.approx(pause)


def test_there_is_no_drag_unless_a_file_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assert current_drag() is None
    monkeypatch.setenv(VARIABLE, str(tmp_path / "missing.json"))
    assert current_drag() is None


def test_a_file_that_is_replaced_is_read_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "drag.json"
    monkeypatch.setenv(VARIABLE, str(path))
    write_drag(DRAG, path)
    os.utime(path, ns=(1, 1))
    assert current_drag() == DRAG
    write_drag(Drag(1.0), path)
    assert current_drag() == Drag(1.0)
