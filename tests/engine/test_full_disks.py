"""Disks that are full, read-only or closed to the user: an error with the folder, an intact checkpoint, and the same
command goes on once the cause is gone."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from unittest import mock

import pytest

from penstock.api import launch as starting
from penstock.connectors.sinks.files import FilesSink
from penstock.engine.driver import executor
from penstock.errors import DiskFullError, StorageError
from penstock.events import DiskFull, EpochCommitted, Event
from penstock.state.model import Staged
from penstock.storage.disk_errors import explained
from penstock.storage.faults import FaultPoint
from penstock.testing.ways import Way
from tests.support.crashes import (
    Fault,
    Place,
    Scenario,
    finish,
    kept_manifests,
    launch,
    random_scenario,
    run_until_death,
)
from tests.support.damage.tries import assert_answer
from tests.support.full_disks import Disk, FaultingDisk, small_disk

WAY = Way(rows_per_epoch=1)


@pytest.fixture
def scenario(random: Random) -> Scenario:
    return random_scenario(random)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path / "place")


@pytest.fixture(params=[True, False], ids=["mounted", "faulting"])
def disk(request: pytest.FixtureRequest, place: Place) -> Iterator[Disk]:
    """Where the checkpoint is."""
    with small_disk(place.checkpoint, request.param) as made:
        made.folder.chmod(0o700)
        yield made


def _after(epochs: int, do: Callable[[], None]) -> Callable[[Event], None]:
    """Does something once so many epochs are committed."""

    def hear(event: Event) -> None:
        if isinstance(event, EpochCommitted) and event.epoch == epochs:
            do()

    return hear


def test_a_full_disk_ends_the_run_with_the_folder_and_the_bytes(scenario: Scenario, place: Place, disk: Disk) -> None:
    with pytest.raises(DiskFullError, match="no room left in") as caught:
        launch(scenario, place, WAY, on_event=_after(3, disk.fill)).wait()
    assert str(place.checkpoint) in caught.value.what
    assert "bytes" in caught.value.detail
    if not isinstance(disk, FaultingDisk):  # which has room, and only says that it has none
        assert "bytes are missing" in caught.value.detail or "0 bytes are free" in caught.value.detail
    assert "the same command continues where it stopped" in caught.value.hint
    assert kept_manifests(place.checkpoint)[-1].epoch == 3
    with pytest.raises(StorageError):  # there is still no room, and nothing is worse for having tried
        finish(scenario, place, WAY)
    disk.make_room()
    finish(scenario, place, WAY)
    assert_answer(scenario, place)


def test_a_full_disk_of_the_results_ends_the_run_with_the_folder(scenario: Scenario, place: Place) -> None:
    with small_disk(place.results) as disk:
        with pytest.raises(DiskFullError, match="no room left in") as caught:
            launch(scenario, place, WAY, on_event=_after(2, disk.fill)).wait()
        assert str(place.results) in caught.value.what
        disk.make_room()
        finish(scenario, place, WAY)
        assert_answer(scenario, place)


def test_a_read_only_disk_is_named(scenario: Scenario, place: Place, disk: Disk) -> None:
    assert run_until_death(scenario, place, WAY, Fault(FaultPoint.COMMITTED, 3))
    disk.protect()
    with pytest.raises(StorageError, match="is read-only") as caught:
        launch(scenario, place, WAY).wait()
    assert str(place.checkpoint) in caught.value.what
    assert "choose another folder" in caught.value.hint
    disk.unprotect()
    finish(scenario, place, WAY)
    assert_answer(scenario, place)


def test_a_disk_that_becomes_read_only_ends_the_run(scenario: Scenario, place: Place) -> None:
    with small_disk(place.checkpoint, mounted=False) as disk:  # a real one cannot, while the lock is open
        disk.folder.chmod(0o700)
        with pytest.raises(StorageError, match="is read-only"):
            launch(scenario, place, WAY, on_event=_after(3, disk.protect)).wait()
        disk.unprotect()
        finish(scenario, place, WAY)
        assert_answer(scenario, place)


def test_a_run_may_wait_for_room(
    scenario: Scenario, place: Place, disk: Disk, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(executor, "LOOK_EVERY", 0.01)
    told: list[DiskFull] = []

    def hear(event: Event) -> None:
        _after(3, disk.fill)(event)
        if isinstance(event, DiskFull):
            told.append(event)
            if len(told) == 3:
                disk.make_room()

    run = launch(scenario, place, WAY, on_full="wait", on_event=hear).wait()
    assert run.progress.state == "finished"
    assert len(told) >= 3
    assert all(event.epoch == 4 and "no room left" in str(event) for event in told[:3])
    assert [event.attempt for event in told[:3]] == [1, 2, 3]
    lines = [record.__dict__ for record in caplog.records if record.__dict__.get("event") == "DiskFull"]
    assert [(line["query"], line["epoch"], line["attempt"]) for line in lines[:3]] == [("ck", 4, n) for n in (1, 2, 3)]
    assert all("no room left" in line["reason"] for line in lines)
    assert_answer(scenario, place)


def test_a_run_that_waits_for_room_can_be_stopped(scenario: Scenario, place: Place, disk: Disk) -> None:
    waits = threading.Event()

    def hear(event: Event) -> None:
        _after(3, disk.fill)(event)
        if isinstance(event, DiskFull):
            waits.set()

    run = launch(scenario, place, WAY, on_full="wait", on_event=hear)
    assert waits.wait(60)
    assert run.stop().progress.state == "stopped"
    disk.make_room()
    finish(scenario, place, WAY)
    assert_answer(scenario, place)


def test_a_full_disk_while_committing_loses_no_state_that_waits_for_its_manifest(
    scenario: Scenario, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the tasks of the epoch have written is still needed when the manifest is tried again."""
    monkeypatch.setattr(executor, "LOOK_EVERY", 0.01)
    opening, refused = os.open, []

    def opened(path: object, flags: int, *rest: int, **more: int) -> int:
        if "000000000004.json" in str(path) and flags & os.O_CREAT and len(refused) < 3:
            refused.append(path)
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        return opening(path, flags, *rest, **more)  # type: ignore[arg-type]

    with mock.patch.object(os, "open", opened):
        launch(scenario, place, WAY, on_full="wait").wait()
    assert len(refused) == 3
    assert_answer(scenario, place)


def test_a_folder_without_permission_is_named(scenario: Scenario, place: Place) -> None:
    opening = os.open

    def opened(path: object, flags: int, *rest: int, **more: int) -> int:
        if "000000000004.json" in str(path) and flags & os.O_CREAT:
            raise OSError(errno.EACCES, "Permission denied", str(path))
        return opening(path, flags, *rest, **more)  # type: ignore[arg-type]

    with mock.patch.object(os, "open", opened), pytest.raises(StorageError, match="no permission to use") as caught:
        launch(scenario, place, WAY).wait()
    assert str(place.checkpoint / "manifests") in caught.value.what
    assert "the user is" in caught.value.detail
    finish(scenario, place, WAY)
    assert_answer(scenario, place)


def test_a_folder_that_takes_no_results_is_named_and_not_the_file_that_waits(scenario: Scenario, place: Place) -> None:
    renaming = os.rename

    def renamed(source: str | Path, target: str | Path, **more: int) -> None:
        if Path(target).parent == place.results:
            raise OSError(errno.EACCES, "Permission denied", str(source), None, str(target))
        renaming(source, target, **more)

    with mock.patch.object(os, "rename", renamed), pytest.raises(StorageError) as caught:
        launch(scenario, place, WAY).wait()
    assert caught.value.what == f"there is no permission to use {place.results}"
    finish(scenario, place, WAY)
    assert_answer(scenario, place)


def test_a_note_that_a_full_disk_cut_short_does_not_spoil_the_next(tmp_path: Path) -> None:
    """Whoever takes files away is believed, also after that."""
    sink, staging = FilesSink(str(tmp_path)), tmp_path / "_penstock"
    staging.mkdir()
    file = Staged("results", "e000000000004-x.parquet", 1, 0, "")
    (staging / file.name).touch()
    (staging / "e000000000004-publishing").write_text(file.name[:7])
    sink.publish(tmp_path, "results", 4, [file])
    (tmp_path / file.name).unlink()
    assert sink.is_published(tmp_path, "results", file)


def test_a_disk_that_refuses_the_files_of_spark_is_named(
    scenario: Scenario, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*given: object, **more: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system", str(place.root / "scratch"))

    monkeypatch.setattr(starting, "executor_for", refused)
    with pytest.raises(StorageError, match="is read-only"):
        launch(scenario, place, WAY)


def test_a_disk_that_can_hold_no_more_files_is_not_said_to_have_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = list(os.statvfs(tmp_path))
    found[5:8] = 1_000, 0, 0  # files, and those that are free: for all, and for this user
    monkeypatch.setattr(os, "statvfs", lambda folder: os.statvfs_result(found))
    error = explained(OSError(errno.ENOSPC, "No space left on device", str(tmp_path / "file")), size=10)
    assert "no file can be added to the 1,000 that its file system can hold" in error.detail
    assert "free" not in error.detail


@pytest.mark.parametrize(
    ("number", "kind", "what"),
    [
        (errno.ENOSPC, DiskFullError, "there is no room left in"),
        (errno.EDQUOT, DiskFullError, "the quota of the user"),
        (errno.EROFS, StorageError, "is read-only"),
        (errno.EACCES, StorageError, "there is no permission to use"),
        (errno.EPERM, StorageError, "there is no permission to use"),
        (errno.EIO, StorageError, "the file system of"),
    ],
)
def test_every_refusal_of_a_disk_has_three_parts(
    number: int, kind: type[StorageError], what: str, tmp_path: Path
) -> None:
    error = explained(OSError(number, os.strerror(number), str(tmp_path / "gone" / "file")), size=1 << 60)
    assert type(error) is kind
    assert what in error.what
    assert str(tmp_path) in error.what
    assert error.detail
    assert error.hint
    assert (number != errno.ENOSPC) or "bytes are missing" in error.detail


@pytest.mark.parametrize("waits", [True, False])
def test_what_a_try_has_taken_is_given_back(waits: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executor, "LOOK_EVERY", 0.01)
    did: list[str] = []

    def write() -> str:
        did.append("write")
        if len(did) < 4:
            raise OSError(errno.ENOSPC, "No space left on device")
        return "written"

    try:
        done = executor.Room(waits, lambda event: None).attempt(3, write, lambda: did.append("give back"))
    except DiskFullError:
        done = "refused"
    assert done == ("written" if waits else "refused")
    assert did == (["write", "give back", "write", "give back", "write"] if waits else ["write", "give back"])
