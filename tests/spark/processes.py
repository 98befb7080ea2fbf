"""Processes of a test: what it has started, and what that has started in turn, found by a mark in the environment."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

import penstock

MARK = "PENSTOCK_TEST_MARK"
PATIENCE = 240.0  # seconds, on a machine with much else to do

ENDLESS = """
CREATE SOURCE calls (WATERMARK FOR ts AS ts - INTERVAL '2' SECOND) WITH (
  connector = 'calls', rate = 5000, districts = 20, disorder = '2s'
);
CREATE SINK busy WITH (connector = 'files', path = 'busy') AS
SELECT district, window_start, count(*) AS calls FROM TUMBLE(calls, ts, INTERVAL '10' SECOND)
GROUP BY district, window_start;
"""

CLI = [sys.executable, "-m", "penstock.cli.main", "run", "endless.sql", "--epoch", "200ms"]


@dataclass(frozen=True)
class Driver:
    """A process that runs a query in `folder`. Invariant: all its descendants have the mark in their environment."""

    process: subprocess.Popen[str]
    mark: str
    folder: Path

    def family(self) -> list[psutil.Process]:
        """Return the driver and its descendants, whoever their parents are now."""
        return [process for process in psutil.process_iter() if _has_mark(process, self.mark)]

    def jvms(self) -> list[psutil.Process]:
        return [process for process in self.family() if _is_jvm(process)]

    def epochs(self) -> int:
        return len(list(self.folder.glob(".penstock/*/manifests/*")))

    def wait_for(self, happened: Callable[[], object], what: str) -> None:
        deadline = time.monotonic() + PATIENCE
        while not happened():
            assert self.process.poll() is None, f"the driver ended before {what}: {self.process.communicate()}"
            assert time.monotonic() < deadline, f"{what}: not within {PATIENCE} s"
            time.sleep(0.02)

    def ended(self) -> tuple[int, str]:
        """Wait for its end; return the exit code and what it wrote to stderr."""
        _, told = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, told

    def survivors(self, seconds: float = 60.0) -> list[str]:
        """Return what is still there of the family after so many seconds at most."""
        deadline = time.monotonic() + seconds
        while (left := self.family()) and time.monotonic() < deadline:
            time.sleep(0.1)
        return [f"{process.pid} {' '.join(_command(process))[:200]}" for process in left]


@contextmanager
def driver(folder: Path, command: list[str] | None = None, **environment: str) -> Iterator[Driver]:
    """Start a driver, by default the command line with a query that does not end; end all that is left of it."""
    (folder / "endless.sql").write_text(ENDLESS)
    mark = uuid.uuid4().hex
    here = str(Path(penstock.__file__).parent.parent)
    around = {**os.environ, MARK: mark, "PYTHONPATH": here, "SPARK_LOCAL_IP": "127.0.0.1", **environment}
    streams = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    process = subprocess.Popen(command or CLI, cwd=folder, env=around, text=True, **streams)  # type: ignore[call-overload]
    started = Driver(process, mark, folder)
    try:
        yield started
    finally:
        for left in started.family():
            with suppress(psutil.Error):
                left.send_signal(signal.SIGKILL)
        process.wait()


def _has_mark(process: psutil.Process, mark: str) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE and process.environ().get(MARK) == mark
    except (psutil.Error, OSError):
        return False


def _is_jvm(process: psutil.Process) -> bool:
    return bool(command := _command(process)) and Path(command[0]).name == "java"


def _command(process: psutil.Process) -> list[str]:
    try:
        return list(process.cmdline())
    except psutil.Error:
        return []
