"""The folders of Spark's own files, on a disk that takes no more: the command line says so, and the same command goes
on once there is room."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

import penstock
from penstock.errors import StorageError
from penstock.spark.embedded.jvm import Jvm
from tests.support.full_disks import Disk, FaultingDisk, small_disk
from tests.support.script_job import ScriptJob, refusal

PATIENCE = 300  # seconds, on a machine with much else to do
COMMAND = ["run", "seen.sql", "--master", "local[2]", "--set", "exchange=spark", "--checkpoint", "ck"]


def _run(job: ScriptJob, folders: Path) -> tuple[int, str]:
    """The exit code, and all that is said."""
    here = str(Path(penstock.__file__).parent.parent)
    around = {"PYTHONPATH": here, "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_LOCAL_DIRS": str(folders), "COLUMNS": "1000"}
    done = subprocess.run(
        [sys.executable, "-m", "penstock.cli.main", *COMMAND],
        cwd=job.folder,
        env={**os.environ, **around},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def _take_room(disk: Disk) -> str:
    """What the disk is then said to be. Where none can be mounted a folder is closed: Spark's calls cannot be made to
    fail, but those who may not mount may not write there, either."""
    if isinstance(disk, FaultingDisk):
        disk.folder.chmod(0o500)
        return f"there is no permission to use {disk.folder}"
    disk.fill()
    return f"there is no room left in {disk.folder}"


def _give_room(disk: Disk) -> None:
    disk.folder.chmod(0o700)
    disk.make_room()


@pytest.mark.spark
def test_a_full_folder_of_shuffles_is_named_and_the_same_command_goes_on(tmp_path: Path, random: Random) -> None:
    job = ScriptJob(tmp_path)
    job.write(random)
    with small_disk(tmp_path / "local") as disk:
        wanted = _take_room(disk)
        said = refusal(*_run(job, disk.folder))
        assert wanted in said
        if not isinstance(disk, FaultingDisk):
            assert "0 bytes are free" in said
            assert "SPARK_LOCAL_DIRS" in said
        _give_room(disk)
        code, told = _run(job, disk.folder)
        assert code == 0, told
    job.assert_answered()


@pytest.mark.spark
def test_a_disk_that_has_no_room_for_sparks_folders_is_named(tmp_path: Path, random: Random) -> None:
    """The JVM ends while it starts."""
    job = ScriptJob(tmp_path)
    job.write(random)
    with small_disk(tmp_path / "local", files=4) as disk:
        wanted = f"Spark cannot make its folders in {disk.folder}"
        if isinstance(disk, FaultingDisk):
            wanted = _take_room(disk)
        assert wanted in refusal(*_run(job, disk.folder))


def test_a_jvm_without_its_folders_says_which(tmp_path: Path) -> None:
    words = r"ERROR JavaUtils: no\n\tat java.base/x(y)\nERROR DiskBlockManager: Failed to create any local dir.\n"
    jvm = Jvm(["sh", "-c", f"printf '{words}' >&2; exit 53"], {**os.environ, "SPARK_LOCAL_DIRS": "/one,/two"})
    error = jvm.not_started()
    assert isinstance(error, StorageError)
    assert error.what == "Spark cannot make its folders in /one,/two"
    assert "code 53. ERROR JavaUtils: no. ERROR DiskBlockManager" in error.detail
    assert "SPARK_LOCAL_DIRS" in error.hint
