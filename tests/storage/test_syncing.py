"""Files that become durable while their writer goes on."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from penstock.storage import durable as durable_files
from penstock.storage.durable import BackgroundSync

pytestmark = pytest.mark.usefixtures("sync_threads")


def test_nothing_is_durable_before_every_file_is_durable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    durable, go_on = [], threading.Event()

    def sync(path: Path) -> None:
        assert go_on.wait(30)
        durable.append(path.name)

    monkeypatch.setattr(durable_files, "sync_file", sync)
    files = BackgroundSync()
    for name in "abc":
        files.later(tmp_path / name)
    assert not durable
    threading.Timer(0.05, go_on.set).start()
    every = files.durable()
    assert not every.done()
    every.result(30)
    assert sorted(durable) == ["a", "b", "c"]


def test_a_writer_waits_while_too_much_is_not_durable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that the end of a step takes a bounded time, however much it has written."""
    synced, go_on = list[str](), threading.Event()

    def sync(path: Path) -> None:
        assert go_on.wait(30)
        synced.append(path.name)

    monkeypatch.setattr(durable_files, "sync_file", sync)
    monkeypatch.setattr(durable_files, "MOST_UNSYNCED", 25)
    files = BackgroundSync()
    for name in "abcd":
        (tmp_path / name).write_bytes(b"." * 10)
    for name in "abc":
        files.later(tmp_path / name)  # before the third, 20 bytes are not durable
    assert synced == []
    threading.Timer(0.05, go_on.set).start()
    files.later(tmp_path / "d")
    assert "a" in synced


def test_a_file_that_cannot_be_made_durable_is_an_error(tmp_path: Path) -> None:
    files = BackgroundSync()
    files.later(tmp_path / "absent")
    with pytest.raises(FileNotFoundError):
        files.durable().result(30)


def test_without_files_nothing_is_waited_for() -> None:
    assert BackgroundSync().durable().done()
