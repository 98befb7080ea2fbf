"""Ctrl-C in a process of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest
from cli_case import calls, to_files

import penstock

_PATIENCE = 60.0


@pytest.fixture
def process(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """An endless query that has committed at least one epoch."""
    endless = calls(more=", realtime = true").replace("rows = 5000, ", "")
    (tmp_path / "busy.sql").write_text(endless + to_files())
    flags = ["--master", "inline", "--epoch", "100ms", "--json"]
    command = [sys.executable, "-m", "penstock.cli.main", "run", "busy.sql", *flags]
    environment = os.environ | {"PYTHONPATH": str(Path(penstock.__file__).parent.parent)}
    with subprocess.Popen(
        command, cwd=tmp_path, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as started:
        try:
            _wait_for_results(tmp_path / "out", started)
            yield started
        finally:
            started.kill()


def _wait_for_results(folder: Path, process: subprocess.Popen[str]) -> None:
    _wait_until(lambda: list(folder.glob("*.parquet")), process)


def _wait_until(happened: Callable[[], object], process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + _PATIENCE
    while not happened():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.05)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_the_first_signal_finishes_the_epoch(process: subprocess.Popen[str], number: signal.Signals, code: int) -> None:
    process.send_signal(number)
    out, err = process.communicate(timeout=_PATIENCE)
    assert process.returncode == code, err
    assert "finishing the epoch, press Ctrl-C again to stop now" in err
    assert "Traceback" not in err
    facts = msgspec.json.decode(out.splitlines()[-1])
    assert (facts["state"], facts["epochs"] > 0) == ("stopped", True)


def test_two_signals_stop_now(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=_PATIENCE)
    assert process.returncode == 130, err
    assert "Traceback" not in err
    assert msgspec.json.decode(out.splitlines()[-1])["state"] == "stopped"


# A function that takes longer than anybody waits, called once there are results.
SLOW = """
import time
import penstock as ps

def slow(rows):
    open("in the middle", "w").close()
    time.sleep(300)
    return rows

busy = ps.read.calls(rows=5000, rate=1000).map_batches(slow, {"caller": "BIGINT", "ts": "TIMESTAMP"}).to.files("out")
"""


def test_the_second_ctrl_c_ends_a_query_in_the_middle_of_a_long_step(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(SLOW)
    command = [sys.executable, "-m", "penstock.cli.main", "run", "slow:busy", "--master", "inline"]
    environment = os.environ | {"PYTHONPATH": str(Path(penstock.__file__).parent.parent)}
    with subprocess.Popen(command, cwd=tmp_path, env=environment, text=True, stderr=subprocess.PIPE) as started:
        try:
            _wait_until((tmp_path / "in the middle").exists, started)
            started.send_signal(signal.SIGINT)
            time.sleep(0.5)
            started.send_signal(signal.SIGINT)
            _, err = started.communicate(timeout=_PATIENCE)  # far less than the step would take
        finally:
            started.kill()
    assert started.returncode == 130, err
    assert "Traceback" not in err
    assert "the same command continues from the last committed one" in err


ENDLESS = """
import penstock as ps

calls = ps.read.calls(rate=1000, realtime=True).group_by("district").window(ps.tumbling("1s")).agg(n=ps.count())
calls.to.files("out").start(checkpoint="ck", master="inline", epoch="50ms").wait()
"""


# Another thread gets the signal; Python raises it in the main thread, which nothing wakes up.
SIGNALLED = """
import os, signal, threading
from penstock.events import EpochCommitted

def interrupt(event):
    if isinstance(event, EpochCommitted) and event.epoch == 2:
        signal.pthread_kill(threading.get_ident(), signal.SIGINT)
"""


def test_ctrl_c_in_a_python_script_is_one_line_that_says_how_to_go_on(tmp_path: Path) -> None:
    with _script(tmp_path, ENDLESS) as started:
        _wait_until(lambda: list(tmp_path.glob("ck/manifests/*2.json")), started)
        started.send_signal(signal.SIGINT)
        _assert_interrupted(started, tmp_path)


def test_ctrl_c_that_another_thread_gets_ends_a_script_too(tmp_path: Path) -> None:
    with _script(tmp_path, SIGNALLED + ENDLESS.replace('epoch="50ms"', 'epoch="50ms", on_event=interrupt')) as started:
        _assert_interrupted(started, tmp_path)


@contextmanager
def _script(folder: Path, text: str) -> Iterator[subprocess.Popen[str]]:
    (folder / "script.py").write_text(text)
    environment = os.environ | {"PYTHONPATH": str(Path(penstock.__file__).parent.parent)}
    command = [sys.executable, "script.py"]
    with subprocess.Popen(command, cwd=folder, env=environment, text=True, stderr=subprocess.PIPE) as started:
        try:
            yield started
        finally:
            started.kill()


def _assert_interrupted(process: subprocess.Popen[str], folder: Path) -> None:
    _, err = process.communicate(timeout=_PATIENCE)
    assert process.returncode == -signal.SIGINT
    assert err.splitlines() == [f"interrupted; restart the query to continue from the checkpoint {folder / 'ck'}"]
