"""Scratch folders: private, gone with their process, and removed by the next one if their process was killed."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import penstock
from penstock.scratch import remove_abandoned, scratch_folder

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


def test_a_process_that_was_forked_has_its_own_folder_and_leaves_the_other(base: Path) -> None:
    """However it ends: here as most programs do, with all that is to be done then."""
    fork = "import os; pid = os.fork(); pid and os.waitpid(pid, 0); print(scratch_folder('more'), flush=True); "
    with _command(base, f"{fork} pid and input()") as process:
        parents, childs, parents_second = _made(process), _made(process), _made(process)
        assert childs.parent != parents.parent == parents_second.parent
        assert parents.is_dir()
        assert not childs.exists()
        process.communicate("\n", timeout=60)
    assert not list(base.iterdir())


def test_a_folder_that_somebody_removed_is_made_anew(base: Path) -> None:
    first = scratch_folder("files", base / "not" / "there")
    shutil.rmtree(first.parent)
    assert scratch_folder("files", base / "not" / "there").is_dir()


def test_a_folder_that_is_being_made_is_not_taken_for_one_that_was_left(
    base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the making of its lock and the taking of it the lock is free."""
    lock = fcntl.flock

    def flock(descriptor: int, how: int) -> None:
        if not how & fcntl.LOCK_NB:
            remove_abandoned(base)
        lock(descriptor, how)

    monkeypatch.setattr(fcntl, "flock", flock)
    assert scratch_folder("files", base).is_dir()


def test_folders_of_another_user_stay(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    left = _killed(base)
    me = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: me + 1)
    remove_abandoned(base)
    assert left.is_dir()
