"""The registry of fault points fires when it is told to, and only then."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import penstock
from penstock.storage import faults
from penstock.storage.faults import FaultPoint, InjectedCrash, arm, disarm, reach


@pytest.fixture(autouse=True)
def _disarmed() -> Iterator[None]:
    yield
    disarm()


def test_nothing_happens_where_nothing_is_armed() -> None:
    for point in FaultPoint:
        reach(point)


def test_only_the_nth_time_at_the_armed_point_fires() -> None:
    arm(FaultPoint.PLANNED, 3)
    for _ in range(2):
        reach(FaultPoint.PLANNED)
        reach(FaultPoint.JOB_DONE)
    with pytest.raises(InjectedCrash, match=r"plan\.done"):
        reach(FaultPoint.PLANNED)
    reach(FaultPoint.PLANNED)


def test_an_error_is_an_oserror_and_a_crash_is_not_an_exception() -> None:
    arm(FaultPoint.PLANNED, action="error")
    with pytest.raises(OSError, match=r"plan\.done"):
        reach(FaultPoint.PLANNED)
    assert not issubclass(InjectedCrash, Exception)


def test_the_environment_arms_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_FAULT", "gc.one@2:crash")
    monkeypatch.setattr(faults, "_read_environment", False)
    reach(FaultPoint.COLLECTED_ONE)
    with pytest.raises(InjectedCrash, match=r"gc\.one"):
        reach(FaultPoint.COLLECTED_ONE)


def test_an_unknown_point_in_the_environment_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_FAULT", "no.such.point")
    monkeypatch.setattr(faults, "_read_environment", False)
    with pytest.raises(ValueError, match=r"no\.such\.point"):
        reach(FaultPoint.PLANNED)


def test_a_marker_lets_a_fault_fire_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_FAULT_ONCE", str(tmp_path / "fired"))
    arm(FaultPoint.PLANNED)
    with pytest.raises(InjectedCrash):
        reach(FaultPoint.PLANNED)
    arm(FaultPoint.PLANNED)
    reach(FaultPoint.PLANNED)


def test_every_point_is_reached_by_some_line_of_the_code() -> None:
    root = Path(penstock.__file__).parent
    code = "\n".join(p.read_text() for p in root.rglob("*.py") if "testing" not in p.parts and p.name != "faults.py")
    assert set(re.findall(r"\bFaultPoint\.(\w+)", code)) == {point.name for point in FaultPoint}
