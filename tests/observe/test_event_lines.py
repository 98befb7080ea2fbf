"""Log lines of events, as a program that uses Penstock as a library gets them."""

from __future__ import annotations

import logging
import subprocess
import sys
import typing
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import pytest

import penstock as ps
from penstock import events
from penstock.errors import PenstockError
from penstock.events import ChangeRefused, DiskFull, Event, JoinExplodes
from penstock.observe.event_lines import log_events

SAMPLES: dict[type, object] = {
    int: 7, str: "some text", float: 0.25, bool: True, int | None: 7, dict[str, float]: {"plan": 0.1},
    tuple[int, ...]: (3, 4), tuple[events.TaskTimed, ...]: (),
}  # fmt: skip


@pytest.fixture(autouse=True)
def everything(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    with caplog.at_level(logging.DEBUG, "penstock"):
        yield


def sample(kind: type[Event]) -> Event:
    """Return an event of a kind with some value in every field."""
    hints = typing.get_type_hints(kind)
    return kind(**{field.name: SAMPLES[hints[field.name]] for field in fields(kind)})


@pytest.mark.parametrize("kind", typing.get_args(Event))
def test_every_event_has_a_line_with_its_fields(kind: type[Event], caplog: pytest.LogCaptureFixture) -> None:
    event = sample(kind)
    log_events("busy")(event)
    (record,) = caplog.records
    assert record.__dict__["query"] == "busy"
    assert record.__dict__["event"] == kind.__name__
    for field in fields(event):
        told = record.__dict__[field.name]
        assert told == (0 if field.name == "tasks" else getattr(event, field.name))
    if hasattr(event, "epoch"):
        assert "epoch 7" in record.getMessage()
    if hasattr(event, "attempt"):
        assert "attempt 7" in record.getMessage()
        assert record.__dict__["reason"] in record.getMessage()


def test_a_line_that_no_handler_wants_is_not_formatted(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(event: Event) -> None:
        raise AssertionError("it is formatted")

    monkeypatch.setattr("penstock.observe.event_lines._line", fail)
    with caplog.at_level(logging.CRITICAL, "penstock"):
        log_events("busy")(sample(events.EpochCommitted))


@pytest.mark.parametrize(
    ("event", "reason"),
    [
        (ChangeRefused(3, 0, "split 01", "it is hot", "it has one key"), "it has one key"),
        (DiskFull(3, "the disk is full", "/data"), "the disk is full (/data)"),
        (events.RunRecovered(3, False), "its checkpoint holds epoch 3"),
    ],
)
def test_a_line_has_its_reason(event: Event, reason: str, caplog: pytest.LogCaptureFixture) -> None:
    log_events("busy")(event)
    assert caplog.records[0].__dict__["reason"] == reason


def test_a_move_that_is_refused_is_an_event_and_a_line(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    calls = ps.read.calls(rows=50_000_000, keys=50, rate=1_000, split_rows=500, progress=ps.slack("1s"))
    query = calls.group_by("caller").window(ps.tumbling("1s")).agg(n=ps.count()).to.memory()
    run = query.start(str(tmp_path / "moving"), master="inline", sites=2, rows_per_epoch=500, policy="static")
    try:
        with pytest.raises(PenstockError, match="refused"):
            run.move(next(iter(run.groups())), 99)
    finally:
        run.stop()
    (event,) = [event for event in run.events if isinstance(event, ChangeRefused)]
    (line,) = [record for record in caplog.records if record.__dict__.get("event") == "ChangeRefused"]
    assert (line.name, line.__dict__["query"], line.__dict__["epoch"]) == ("penstock.balance", "moving", event.epoch)
    assert line.__dict__["reason"] == event.rule
    (answer,) = [record for record in caplog.records if "MoveRequest" in record.getMessage()]
    assert answer.__dict__["reason"] == event.rule


def test_a_listener_that_fails_does_not_hide_the_line(caplog: pytest.LogCaptureFixture) -> None:
    def listener(event: object) -> None:
        raise ValueError("no")

    query = ps.read.batches([[{"ts": 1}]], time="ts").window(ps.tumbling(10)).agg(n=ps.count()).to.memory()
    with pytest.raises(PenstockError, match="listener"):
        query.start(master="inline", on_event=listener).wait()
    assert "EpochCommitted" in [record.__dict__.get("event") for record in caplog.records]
    (failed,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert "has failed after epoch" in failed.getMessage()
    assert "ValueError: no" in failed.__dict__["reason"]


def test_what_the_command_line_shows_as_a_warning_is_marked(caplog: pytest.LogCaptureFixture) -> None:
    log_events("busy")(JoinExplodes(3, 0, "7", (100, 100), 10_000))
    assert caplog.records[0].__dict__["shown"] is True
    assert caplog.records[0].levelno == logging.WARNING


def test_as_a_library_it_is_quiet_and_configures_nothing(tmp_path: Path) -> None:
    script = """
import logging
import penstock as ps
from penstock.events import EpochDropped
from penstock.observe.event_lines import log_events
ps.read.calls(rows=10).to.memory().start(master="inline").wait()
log_events("busy")(EpochDropped(1, "a worker died"))
assert not logging.getLogger().handlers
assert logging.getLogger("penstock").level == logging.NOTSET
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=tmp_path, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
