"""Logging of the command line: where lines go, from which level on, as text or as JSON.

The loggers are those of Python's `logging`, one per module below `penstock`. The package itself configures nothing: a
program that uses it as a library gets the lines through its own handlers, and `JsonLines` is a formatter for them.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from logging.handlers import WatchedFileHandler
from pathlib import Path
from typing import Any, TextIO

import msgspec

from penstock.errors import ConfigError, printable

ROOT = logging.getLogger("penstock")
SHOWN = "shown"  # a field of lines which the command line shows anyway
_STANDARD = {*vars(logging.makeLogRecord({})), "message", "asctime", "taskName", SHOWN}
_FIRST_FIELDS = ("event", "query", "epoch", "attempt", "reason", "worker")


class LogLevel(StrEnum):
    """The least severe lines that are logged."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class LogFormat(StrEnum):
    """How a line is written."""

    TEXT = "text"
    JSON = "json"


@dataclass(frozen=True)
class LogOptions:
    """What is logged, where and how. Nothing is logged if nothing is given; otherwise the level is info, the lines are
    text, and they go to stderr."""

    level: LogLevel | None = None
    file: Path | None = None
    format: LogFormat | None = None

    @property
    def wanted(self) -> bool:
        """Return whether anything is logged."""
        return not (self.level is None and self.file is None and self.format is None)


@contextmanager
def logging_to(options: LogOptions) -> Iterator[None]:
    """Log within the block. Lines go to this place alone, not to handlers that other code has set."""
    if not options.wanted:
        yield
        return
    before, handler = (ROOT.level, ROOT.propagate), _handler(options)
    ROOT.addHandler(handler)
    ROOT.setLevel((options.level or LogLevel.INFO).upper())
    ROOT.propagate = False
    try:
        yield
    finally:
        ROOT.removeHandler(handler)
        handler.close()
        ROOT.setLevel(before[0])
        ROOT.propagate = before[1]


def _handler(options: LogOptions) -> logging.Handler:
    """Return the handler for a file, or for stderr if none is given."""
    as_json = options.format is LogFormat.JSON
    handler = StderrLines() if options.file is None else _opened(options.file)
    handler.setFormatter(JsonLines() if as_json else TextLines())
    if options.file is None and not as_json:
        handler.addFilter(_is_not_shown)
    return handler


def _is_not_shown(record: logging.LogRecord) -> bool:
    """Return False for lines that would stand on the terminal twice."""
    return not getattr(record, SHOWN, False)


def _opened(path: Path) -> logging.Handler:
    """Open a log file, to append to it."""
    try:
        return FileLines(path)
    except OSError as error:
        raise ConfigError(
            f"the log file {path} cannot be opened",
            detail=error.strerror or str(error),
            hint="name a file in a folder that exists and can be written",
        ) from error


class StderrLines(logging.StreamHandler[TextIO]):
    """Writes lines to the stderr of the moment, which a live display may have replaced."""

    def __init__(self) -> None:
        logging.Handler.__init__(self)

    @property
    def stream(self) -> TextIO:  # type: ignore[override]
        """Return stderr."""
        return sys.stderr


class FileLines(WatchedFileHandler):
    """Appends lines to a file; follows its name if the file is rotated. A line that cannot be written is dropped, and
    the first one is reported on stderr: a full disk of logs must not stop a query."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, encoding="utf-8", errors="backslashreplace")
        self._failed = False

    def handleError(self, record: logging.LogRecord) -> None:
        """Report the first line that cannot be written."""
        self._report(sys.exc_info()[1])

    def close(self) -> None:
        """Flush the lines that are still buffered, and close the file."""
        try:
            super().close()
        except OSError as error:
            self._report(error)

    def _report(self, error: BaseException | None) -> None:
        if not self._failed:
            self._failed = True
            print(f"warning: the log {self.baseFilename} cannot be written: {error}", file=sys.stderr)


class TextLines(logging.Formatter):
    """Formats a line for people: time in UTC, level, logger, query, message. One line, except for a trace."""

    def format(self, record: logging.LogRecord) -> str:
        query = getattr(record, "query", None)
        about = "" if query is None else f" [{_one_line(str(query))}]"
        head = f"{_time(record)} {record.levelname:<7} {record.name}{about} {_one_line(record.getMessage())}"
        return f"{head}\n{self.formatException(record.exc_info)}" if record.exc_info else head


def _one_line(text: str) -> str:
    """Return a text with its line breaks and other control characters escaped: they could forge lines."""
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in printable(text))


class JsonLines(logging.Formatter):
    """Formats a line as a JSON object: time (ISO 8601, UTC), level, logger, message, the fields of the event or the
    message, and the trace of an exception."""

    def format(self, record: logging.LogRecord) -> str:
        fields: dict[str, Any] = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        own = {name: value for name, value in vars(record).items() if name not in _STANDARD}
        fields |= {name: own[name] for name in _FIRST_FIELDS if name in own}
        fields |= own
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        plain = {name: printable(value) if isinstance(value, str) else value for name, value in fields.items()}
        return msgspec.json.encode(plain, enc_hook=str).decode()


def _time(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
