"""A disk that is full, read-only or closed to the user, as the command line shows it: three parts with the folder and
the bytes, exit code 1, an intact checkpoint; and the same command goes on once the cause is gone."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from cli_case import last_json, penstock
from typer.testing import Result

import penstock as package
from penstock.checkpoint.store import Checkpoint
from tests.support.full_disks import Disk, FaultingDisk, small_disk
from tests.support.script_job import ScriptJob, refusal

NOBODY = 65534
COMMAND = ("run", "seen.sql", "--master", "inline", "--checkpoint", "checkpoint/of-it")


@pytest.fixture(autouse=True)
def job(tmp_path: Path, random: Random, monkeypatch: pytest.MonkeyPatch) -> ScriptJob:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "1000")
    written = ScriptJob(tmp_path)
    written.write(random)
    return written


@pytest.fixture(params=["checkpoint", "results"])
def disk(request: pytest.FixtureRequest, job: ScriptJob) -> Iterator[Disk]:
    """Holds one of the two; the other is beside it."""
    with small_disk(job.folder / request.param) as made:
        made.folder.chmod(0o700)
        yield made


def _refused(*command: str) -> str:
    result = penstock(*command)
    return refusal(result.exit_code, result.output)


def _run(*flags: str) -> Result:
    return penstock(*COMMAND, *flags)


def _goes_on(job: ScriptJob) -> None:
    """The same command finishes, and nothing is lost nor doubled."""
    result = _run()
    assert result.exit_code == 0, result.output
    job.assert_answered()


def _newest_epoch(job: ScriptJob) -> int:
    """Of a checkpoint that can be opened: 0 where nothing was committed."""
    checkpoint = Checkpoint.open(job.folder / "checkpoint" / "of-it")
    try:
        found = checkpoint.newest()
        return found.epoch if found else 0
    finally:
        checkpoint.close()


@pytest.mark.parametrize("epochs", [0, 3])
def test_a_full_disk_is_named_with_its_bytes_and_the_same_command_goes_on(
    epochs: int, disk: Disk, job: ScriptJob
) -> None:
    if epochs:
        assert _run("--until", f"{epochs} epochs").exit_code == 0
    disk.fill()
    for _ in range(2):  # there is still no room, and nothing is worse for having tried
        said = _refused(*COMMAND)
        assert f"there is no room left in {disk.folder}" in said
        if not isinstance(disk, FaultingDisk):  # which has room, and only says that it has none
            assert "0 bytes are free" in said
            assert "bytes are missing" in said
        assert "the checkpoint is intact, and the same command continues where it stopped" in said
    disk.make_room()
    assert _newest_epoch(job) >= epochs
    _goes_on(job)


@pytest.mark.parametrize("epochs", [0, 3])
def test_a_read_only_disk_is_named_and_the_same_command_goes_on(epochs: int, disk: Disk, job: ScriptJob) -> None:
    if epochs:
        assert _run("--until", f"{epochs} epochs").exit_code == 0
    disk.protect()
    said = _refused(*COMMAND)
    assert f"{disk.folder}" in said.partition(" is read-only")[0]
    assert " is read-only detail: " in said
    assert "the same command continues where it stopped" in said
    disk.unprotect()
    assert _newest_epoch(job) >= epochs
    _goes_on(job)


def test_a_query_that_would_take_more_disk_than_it_may_is_told_so_and_goes_on_with_more(job: ScriptJob) -> None:
    said = _refused(*COMMAND, "--set", "disk=50kB")
    assert "of the 50 kB that the setting `disk` allows" in said
    assert "give `disk` more" in said
    assert _newest_epoch(job) > 0
    result = _run("--set", "disk=10MB", "--json")
    assert result.exit_code == 0, result.output
    facts = last_json(result)
    assert 0 < facts["disk_bytes"] < facts["disk_limit"] == 10_000_000
    job.assert_answered()


def test_a_demo_on_a_read_only_disk_ends_without_a_trace(job: ScriptJob, monkeypatch: pytest.MonkeyPatch) -> None:
    with small_disk(job.folder / "here") as disk:
        disk.protect()
        if isinstance(disk, FaultingDisk):  # which does not see folders being made
            disk.folder.chmod(0o500)
        monkeypatch.chdir(disk.folder)
        said = _refused("demo", "--master", "inline", "--seconds", "1")
        assert "demo-out: " in said
        monkeypatch.chdir(job.folder)


def test_with_json_a_full_disk_is_also_a_line(disk: Disk) -> None:
    disk.fill()
    said = _run("--json").stdout
    assert '"state":"failed"' in said
    assert f"there is no room left in {disk.folder}" in said


def test_a_full_temporary_folder_is_named_and_the_command_can_be_given_again(
    job: ScriptJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A SELECT without a sink has its checkpoint among temporary files."""
    with small_disk(job.folder / "temporary") as disk:
        monkeypatch.setenv("TMPDIR", str(disk.folder))
        monkeypatch.setattr(tempfile, "tempdir", None)
        assert tempfile.gettempdir() == str(disk.folder)
        command = ["run", "-c", job.select, "--set", "rows_per_epoch=1", "--rows", "100000"]
        disk.fill(leave=96 << 10)
        said = _refused(*command)
        assert f"there is no room left in {disk.folder}/penstock-" in said
        assert "bytes" in said
        assert "the environment variables TMPDIR" in said
        assert "any other starts over" in said
        assert "the checkpoint is intact" not in said
        disk.make_room()
        result = penstock(*command)
        assert result.exit_code == 0, result.output
        shown = sorted(line.split("│")[4].strip() for line in result.stdout.splitlines() if line.startswith("│"))
        assert shown == sorted(job.answer().column("note").to_pylist())


# -- another user ------------------------------------------------------------------------------------------------------


def _as_another_user() -> tuple[int, str]:
    """The command as the user nobody, who may read what there is (the interpreter may lie where only its owner can) but
    not write. Whoever is not root is refused as anybody is, and stays who he is."""
    become = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    become += ["--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"]
    command = [sys.executable, "-m", "penstock.cli.main", *COMMAND]
    here = str(Path(package.__file__).parent.parent)
    done = subprocess.run(
        [*(become if os.geteuid() == 0 else []), *command],
        env={**os.environ, "PYTHONPATH": here, "HOME": "/nonexistent", "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert "setpriv" not in done.stderr, done.stderr
    return done.returncode, done.stdout + done.stderr


def test_a_folder_without_permission_is_named_and_the_same_command_goes_on(job: ScriptJob) -> None:
    checkpoint, results = job.folder / "checkpoint" / "of-it", job.folder / "results"
    for one in (checkpoint, results):
        one.mkdir(parents=True)
        one.chmod(0o500)
    for refused in (checkpoint, results):
        said = refusal(*_as_another_user())
        assert f"there is no permission to use {refused} detail: " in said
        assert "the user is " in said
        assert "the same command continues where it stopped" in said
        _hand_over(refused)
    code, said = _as_another_user()
    assert code == 0, said
    job.assert_answered()


def _hand_over(folder: Path) -> None:
    folder.chmod(0o700)
    if os.geteuid() == 0:
        os.chown(folder, NOBODY, NOBODY)
