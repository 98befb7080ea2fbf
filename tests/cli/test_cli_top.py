"""`penstock top`: of what runs it shows a picture, and how it ends."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from cli_case import penstock
from top_case import BEGAN, STATUS, shown

import penstock as package
from penstock.checkpoint.lock import Lock
from penstock.control.requests import Control
from penstock.control.status import Status

_PATIENCE = 30.0  # seconds


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@contextmanager
def running(status: Status | None = STATUS) -> Iterator[Lock]:
    """A run that holds the checkpoint, and has told how it is getting on."""
    Path("checkpoint/manifests").mkdir(parents=True)
    lock = Lock(Path("checkpoint/lock"))
    lock.acquire()
    control = Control(Path("checkpoint"), BEGAN)
    if status is not None:
        control.publish(status)
    try:
        yield lock
    finally:
        control.close()
        lock.release()


@pytest.mark.parametrize("width", [80, 120])
def test_once_prints_one_picture(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    fresh = replace(STATUS, at=time.time(), began=time.time() - 60)
    with running(fresh):
        result = penstock("top", "checkpoint", "--once")
    assert result.exit_code == 0
    assert [line.rstrip() for line in result.stdout.splitlines()] == shown(fresh, width)


def test_json_prints_the_status() -> None:
    with running():
        result = penstock("top", "checkpoint", "--json")
    (line,) = result.stdout.splitlines()
    assert msgspec.json.decode(line, type=Status) == STATUS


def test_one_picture_waits_until_groups_are_told() -> None:
    """The run tells of groups when it is watched, as one does that looks for the sign."""
    untold = replace(STATUS, has_group_statistics=False, subqueries=(replace(STATUS.subqueries[0], hottest=()),))
    with running(untold):
        control, over = Control(Path("checkpoint"), BEGAN), threading.Event()
        control.publish(untold)

        def tell() -> None:
            while not over.wait(0.05):
                control.publish(STATUS if control.watched else untold)

        thread = threading.Thread(target=tell)
        thread.start()
        result = penstock("top", "checkpoint", "--json")
        over.set()
        thread.join()
        control.close()
    assert msgspec.json.decode(result.stdout, type=Status) == STATUS
    assert not Path("checkpoint/control/watched.json").exists()


def test_where_no_epoch_comes_groups_are_not_waited_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.cli.top._GROUPS_WAIT", 0.3)
    with running(replace(STATUS, has_group_statistics=False)):
        result = penstock("top", "checkpoint", "--json")
    assert (result.exit_code, msgspec.json.decode(result.stdout, type=Status).has_group_statistics) == (0, False)


def test_a_run_that_has_ended_is_not_shown() -> None:
    with running():
        pass
    result = penstock("top", "checkpoint", "--once")
    assert result.exit_code == 1
    assert "no run is using this checkpoint" in result.stderr


def test_top_waits_while_a_query_is_starting() -> None:
    """A run holds its checkpoint before it has a control folder; the status of a run before it is not shown."""
    with running(replace(STATUS, query="the run before")):
        pass
    os.utime("checkpoint/control/status.json", (BEGAN, BEGAN))
    lock = Lock(Path("checkpoint/lock"))
    lock.acquire()

    def begin() -> None:
        control = Control(Path("checkpoint"), BEGAN)
        control.publish(replace(STATUS, query="the run that starts"))
        control.close()

    beginning = threading.Timer(0.6, begin)
    beginning.start()
    try:
        result = penstock("top", "checkpoint", "--once")
    finally:
        beginning.join()
        lock.release()
    assert "the run that starts" in result.stdout
    assert "the run before" not in result.stdout


def test_a_run_that_ended_before_it_told_anything() -> None:
    Path("checkpoint/manifests").mkdir(parents=True)
    lock = Lock(Path("checkpoint/lock"))
    lock.acquire()
    ending = threading.Timer(0.3, lock.release)
    ending.start()
    result = penstock("top", "checkpoint", "--once")
    ending.join()
    assert result.exit_code == 1
    assert "the run ended before it published its status" in result.stderr


def test_a_status_of_another_version_is_said_to_be_so() -> None:
    with running():
        path = Path("checkpoint/control/status.json")
        path.write_bytes(path.read_bytes().replace(b'"epoch"', b'"era"'))
        result = penstock("top", "checkpoint", "--once")
    assert result.exit_code == 1
    assert "the status of the run cannot be read" in result.stderr


def test_a_status_of_another_format_is_said_to_be_so() -> None:
    with running():
        path = Path("checkpoint/control/status.json")
        path.write_bytes(b'{"format":2,"anything":"else"}')
        result = penstock("top", "checkpoint", "--once")
    assert result.exit_code == 1
    assert "the status of the run cannot be read" in result.stderr
    assert "it has format 2, and Penstock" in result.stderr


# -- on a terminal ---------------------------------------------------------------------------------------------------


# A background job of a shell ignores Ctrl-C, and so would what it starts; somebody at a terminal does not.
_TOP = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from penstock.cli.main import app
app()
"""


def watched(end: Callable[[int, subprocess.Popen[bytes]], None]) -> tuple[int, str]:
    """The exit code of `top` on a terminal of its own, and all that it wrote; `end` is done after the first picture."""
    command = [sys.executable, "-c", _TOP, "top", "checkpoint"]
    environment = os.environ | {"PYTHONPATH": str(Path(package.__file__).parent.parent), "TERM": "xterm"}
    ours, theirs = pty.openpty()
    with subprocess.Popen(command, env=environment, stdin=theirs, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        written, ended = b"", False
        enough = threading.Timer(_PATIENCE, process.kill)  # so that one that does not end is a failure, not a hang
        enough.start()
        try:
            while chunk := os.read(ours, 65536):
                written += chunk
                if not ended and b"window join" in written:
                    ended = True
                    end(ours, process)
        except OSError:  # how a terminal says that nobody writes to it any more
            pass
        finally:
            enough.cancel()
            os.close(ours)
    return process.returncode, written.decode()


def test_q_ends_it() -> None:
    with running():
        code, written = watched(lambda terminal, _: os.write(terminal, b"q") and None)
    assert code == 0
    assert "the run has ended" not in written


def test_ctrl_c_ends_it() -> None:
    with running():
        code, written = watched(lambda _, process: process.send_signal(signal.SIGINT))
    assert code == 0
    assert "the run has ended" not in written


def test_the_end_of_the_run_ends_it_and_the_last_picture_stays() -> None:
    with running() as lock:
        code, written = watched(lambda _, process: lock.release())
    assert code == 0
    left = written.rpartition("\x1b[?1049l")[2]  # what is written after the screen is given back
    assert "window join" in left
    assert left.rstrip().endswith("the run has ended")
