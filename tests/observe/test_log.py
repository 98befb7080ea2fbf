"""The lines of a log: one per record, whatever the record holds."""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path

import pytest

from penstock.observe.log import JsonLines, LogFormat, LogLevel, LogOptions, TextLines, logging_to

LOG = logging.getLogger("penstock.somewhere")


def record(message: str, **extra: object) -> logging.LogRecord:
    return LOG.makeRecord(LOG.name, logging.WARNING, __file__, 1, "%s", (message,), None, extra=extra)


@pytest.mark.parametrize("message", ["a\nb", "a\r\x1b[2Jb", "a\u2028b", "\udcff", "ü"])
def test_a_record_is_one_line_without_control_characters(message: str) -> None:
    for formatter in (TextLines(), JsonLines()):
        line = formatter.format(record(message, query=message, reason=message))
        line.encode("utf-8")
        assert not set("\n\r\x1b") & set(line)


def test_json_has_all_fields_in_a_fixed_order() -> None:
    told = record("it is lost", rows=(1, 2), reason="killed", attempt=2, epoch=3, query="q", worker=1)
    found = json.loads(JsonLines().format(told))
    assert list(found) == [
        "time", "level", "logger", "message", "query", "epoch", "attempt", "reason", "worker", "rows",
    ]  # fmt: skip
    assert (found["level"], found["logger"], found["message"]) == ("warning", "penstock.somewhere", "it is lost")
    assert (found["rows"], found["attempt"]) == ([1, 2], 2)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), Path("x"), object()])
def test_every_value_can_be_written_as_json(value: object) -> None:
    assert "value" in json.loads(JsonLines().format(record("odd", value=value)))


def test_a_trace_is_a_field() -> None:
    try:
        raise ValueError("no")
    except ValueError:
        caught = sys.exc_info()
    told = LOG.makeRecord(LOG.name, logging.ERROR, __file__, 1, "it failed", (), caught)
    assert json.loads(JsonLines().format(told))["exception"].endswith("ValueError: no")
    assert TextLines().format(told).endswith("ValueError: no")


def test_a_file_that_is_rotated_is_opened_again(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    with logging_to(LogOptions(LogLevel.INFO, path)):
        LOG.info("before")
        path.rename(tmp_path / "x.log.1")
        LOG.info("after")
    assert "before" in (tmp_path / "x.log.1").read_text()
    assert path.read_text().endswith("after\n")


def test_other_handlers_do_not_get_the_lines_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with logging_to(LogOptions(file=tmp_path / "x.log", format=LogFormat.JSON)):
        LOG.warning("once")
    assert "once" not in caplog.text
    LOG.warning("afterwards")
    assert "afterwards" in caplog.text
