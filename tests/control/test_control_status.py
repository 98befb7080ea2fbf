"""What a run shows of itself in the control folder, and whether somebody looks."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest
from control_case import BEGAN, HOUR, Clock, files, status

from penstock.cli.asking import read_status
from penstock.control.folder import CONTROL_FORMAT, ControlFolder
from penstock.control.requests import Control
from penstock.control.status import Status


def published(root: Path) -> Status:
    return msgspec.json.decode((root / "control" / "status.json").read_bytes(), type=Status)


@pytest.mark.parametrize("mark", [datetime(2024, 1, 31, 12, 0, 0, 5, tzinfo=UTC), -17, None])
def test_a_status_comes_through_as_it_is(tmp_path: Path, control: Control, mark: datetime | int | None) -> None:
    control.publish(replace(status(), low_water_mark=mark))
    assert published(tmp_path) == replace(status(), low_water_mark=mark)


def test_a_status_has_the_number_of_its_format_and_is_read_without_it(tmp_path: Path, control: Control) -> None:
    control.publish(status())
    path = tmp_path / "control" / "status.json"
    written = msgspec.json.decode(path.read_bytes())
    assert written.pop("format") == CONTROL_FORMAT
    path.write_bytes(msgspec.json.encode(written))
    folder = ControlFolder(tmp_path)
    assert read_status(folder) == status()
    folder.close()


def test_a_status_is_written_four_times_a_second_at_most(tmp_path: Path, control: Control, clock: Clock) -> None:
    written = []
    for epoch in range(9):
        control.publish(status(epoch))
        written.append(published(tmp_path).epoch)
        clock.now += 0.125
    assert written == [0, 0, 2, 2, 4, 4, 6, 6, 8]


def test_a_clock_that_is_set_back_does_not_stop_the_status(tmp_path: Path, control: Control, clock: Clock) -> None:
    control.publish(status(1))
    clock.now -= HOUR
    assert control.status_due
    control.publish(status(2))
    assert published(tmp_path).epoch == 2


def sign(root: Path, text: str) -> Path:
    path = root / "control" / "watched.json"
    path.write_text(text)
    path.chmod(0o600)
    return path


def test_a_run_is_watched_while_the_sign_changes(tmp_path: Path, control: Control, clock: Clock) -> None:
    assert not control.watched
    sign(tmp_path, "1")
    assert control.watched
    clock.now += 2.5
    assert control.watched
    sign(tmp_path, "2")
    assert control.watched
    clock.now += 2.5
    assert control.watched
    clock.now += 1
    assert not control.watched


def test_who_stops_watching_is_forgotten(tmp_path: Path, control: Control, clock: Clock) -> None:
    path = sign(tmp_path, "1")
    assert control.watched
    path.unlink()
    clock.now += 4
    assert not control.watched


def test_a_sign_that_others_can_write_does_not_count(tmp_path: Path, control: Control) -> None:
    sign(tmp_path, "1").chmod(0o620)
    assert not control.watched


def test_a_sign_that_was_left_behind_does_not_count(tmp_path: Path) -> None:
    (tmp_path / "control").mkdir(mode=0o700)
    sign(tmp_path, "1")
    control = Control(tmp_path, BEGAN, Clock())
    assert not control.watched
    control.close()


def test_the_status_of_a_run_before_is_not_shown(tmp_path: Path, control: Control) -> None:
    control.publish(status())
    Control(tmp_path, BEGAN, Clock()).close()
    assert files(tmp_path) == set()
