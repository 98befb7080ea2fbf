"""Scratch folders: private, gone with their process, and removed by the next one if their process was killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import penstock

MAKE = "from penstock.scratch import scratch_folder; print(scratch_folder('files'), flush=True); "


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return tmp_path


def _command(base: Path, then: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "TMPDIR": str(base), "PYTHONPATH": str(Path(penstock.__file__).parent.parent)}
    command = [sys.executable, "-c", MAKE + then]
    return subprocess.Popen(command, env=environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def _made(process: subprocess.Popen[str]) -> Path:
    assert process.stdout is not None
    return Path(process.stdout.readline().strip())


@pytest.fixture
def living(base: Path) -> Iterator[Path]:
    """The scratch folder of a process that lives as long as the test."""
    with _command(base, "input()") as process:
        yield _made(process)
        process.communicate("\n", timeout=60)


def _next_process(base: Path) -> None:
    with _command(base, "") as process:
        process.communicate(timeout=60)


def _killed(base: Path) -> Path:
    with _command(base, f"import os; os.kill(os.getpid(), {int(signal.SIGKILL)})") as process:
        return _made(process)


def test_a_folder_is_for_its_owner_only_and_goes_with_its_process(base: Path) -> None:
    with _command(base, "input()") as process:
        folder = _made(process)
        assert folder.parent.stat().st_mode & 0o777 == 0o700
        process.communicate("\n", timeout=60)
    assert not list(base.iterdir())


def test_what_a_killed_process_left_is_removed_by_the_next_one(base: Path) -> None:
    left = _killed(base)
    assert left.exists()
    _next_process(base)
    assert not left.parent.exists()


def test_the_folder_of_a_process_that_lives_stays(base: Path, living: Path) -> None:
    _next_process(base)
    assert living.is_dir()


def test_folders_that_only_look_alike_stay(base: Path) -> None:
    (base / "penstock-notes").mkdir()
    (base / "elsewhere").mkdir()
    (base / "elsewhere" / ".owner").touch()
    (base / "penstock-link").symlink_to(base / "elsewhere")
    (base / "penstock-linked-lock").mkdir()
    (base / "penstock-linked-lock" / ".owner").symlink_to(base / "elsewhere" / ".owner")
    _next_process(base)
    assert sorted(path.name for path in base.iterdir()) == [
        "elsewhere", "penstock-link", "penstock-linked-lock", "penstock-notes",
    ]  # fmt: skip
    assert (base / "elsewhere" / ".owner").exists()
