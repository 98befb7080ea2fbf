"""Ctrl-C in a process of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
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
    deadline = time.monotonic() + _PATIENCE
    while not list(folder.glob("*.parquet")):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline, "no results came"
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
