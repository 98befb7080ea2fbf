"""One driver per checkpoint, and a dead one holds nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.checkpoint.lock import Lock
from penstock.errors import CheckpointError

HOLD = """
import sys, time
from pathlib import Path
from penstock.checkpoint.lock import Lock
Lock(Path(sys.argv[1])).acquire()
print("held", flush=True)
time.sleep(600)
"""


def test_a_second_holder_is_refused_and_told_who_holds_it(tmp_path: Path) -> None:
    first, second = Lock(tmp_path / "lock"), Lock(tmp_path / "lock")
    first.acquire()
    with pytest.raises(CheckpointError, match="in use by another run") as caught:
        second.acquire()
    assert f"process {os.getpid()} on " in caught.value.detail
    first.release()
    second.acquire()
    second.release()


def test_refusing_a_second_holder_leaves_the_first_one_in_possession(tmp_path: Path) -> None:
    first = Lock(tmp_path / "lock")
    first.acquire()
    for _ in range(2):
        with pytest.raises(CheckpointError):
            Lock(tmp_path / "lock").acquire()
    first.release()


def test_the_lock_dies_with_a_killed_process(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", HOLD, tmp_path / "lock"], stdout=subprocess.PIPE, text=True) as holder:
        try:
            assert holder.stdout is not None
            assert holder.stdout.readline() == "held\n"
            with pytest.raises(CheckpointError, match=f"process {holder.pid} on "):
                Lock(tmp_path / "lock").acquire()
        finally:
            holder.send_signal(signal.SIGKILL)
    lock = Lock(tmp_path / "lock")
    lock.acquire()
    lock.release()


def test_a_lock_can_be_released_twice(tmp_path: Path) -> None:
    lock = Lock(tmp_path / "lock")
    lock.acquire()
    lock.release()
    lock.release()
