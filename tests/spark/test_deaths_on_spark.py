"""Drivers and JVMs that die, with real processes: what a user reads, and that nothing stays behind."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest
from processes import Driver, driver

pytestmark = pytest.mark.spark

SCRIPT = """
import sys
import penstock as ps

calls = ps.read.calls(rate=5_000, districts=20)
busy = calls.group_by("district").window(ps.tumbling("10s")).agg(calls=ps.count())
run = busy.to.files("busy").start(checkpoint=".penstock/endless", epoch="200ms")
{then}
"""


def _script(folder: Path, then: str) -> list[str]:
    (folder / "script.py").write_text(SCRIPT.format(then=then))
    return [sys.executable, "script.py"]


def _running(started: Driver) -> None:
    started.wait_for(lambda: started.epochs() > 2, "the first epochs")


def test_a_jvm_that_is_killed_ends_the_query_with_an_error_that_says_how_to_go_on(tmp_path: Path) -> None:
    with driver(tmp_path) as started:
        _running(started)
        (jvm,) = started.jvms()
        jvm.kill()
        code, told = started.ended()
        assert code == 1
        assert "error: Spark died" in told
        assert "checkpoint is intact" in told
        assert "Traceback" not in told
        assert not started.survivors()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_nothing_stays_behind_when_the_driver_gets(number: signal.Signals, tmp_path: Path) -> None:
    with driver(tmp_path) as started:
        _running(started)
        assert len(started.family()) > 2, "the workers have the mark"
        started.process.send_signal(number)
        _, told = started.ended()
        assert "Traceback" not in told
        assert not started.survivors()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_nothing_stays_behind_when_spark_is_still_starting_and_the_driver_gets(
    number: signal.Signals, tmp_path: Path
) -> None:
    with driver(tmp_path) as started:
        started.wait_for(started.jvms, "a JVM")
        started.process.send_signal(number)
        _, told = started.ended()
        assert "Traceback" not in told
        assert not started.survivors()


KILL_AND_GO_ON = """
import time, psutil
while run.progress.epochs < 2: time.sleep(0.05)
[child.kill() for child in psutil.Process().children() if child.name() == "java"]
try:
    run.wait()
except ps.PenstockError as error:
    print(error.what, file=sys.stderr)
again = busy.to.files("busy").start(checkpoint=".penstock/endless", epoch="200ms", until="2 epochs").wait()
print("then", again.progress.state, again.progress.epochs, file=sys.stderr)
"""


def test_a_script_goes_on_with_a_new_spark_after_the_jvm_was_killed(tmp_path: Path) -> None:
    with driver(tmp_path, _script(tmp_path, KILL_AND_GO_ON)) as started:
        code, told = started.ended()
        assert code == 0, told
        assert told.splitlines()[-2:] == ["Spark died while the query was running", "then stopped 2"]
        assert not started.survivors()


def test_nothing_stays_behind_when_a_script_ends_with_an_exception(tmp_path: Path) -> None:
    with driver(tmp_path, _script(tmp_path, "raise ValueError('a mistake')")) as started:
        code, told = started.ended()
        assert code == 1
        assert "ValueError: a mistake" in told
        assert "nanobind" not in told
        assert not started.survivors()


def test_ctrl_c_in_a_script_ends_it_without_a_trace(tmp_path: Path) -> None:
    with driver(tmp_path, _script(tmp_path, "run.wait()")) as started:
        _running(started)
        started.process.send_signal(signal.SIGINT)
        code, told = started.ended()
        assert code in (-signal.SIGINT, 128 + signal.SIGINT)
        assert "interrupted; restart the query to continue from the checkpoint" in told
        assert "Traceback" not in told
        assert "nanobind" not in told
        assert not started.survivors()
