"""The options of long-running commands for their log, and a log of the command itself."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from penstock.errors import PenstockError
from penstock.observe.log import SHOWN, LogFormat, LogLevel, LogOptions, logging_to
from penstock.version import __version__

_log = logging.getLogger("penstock.cli")
_PANEL = "Logging"

LevelOption = Annotated[
    LogLevel | None,
    typer.Option(
        "--log-level",
        envvar="PENSTOCK_LOG_LEVEL",
        case_sensitive=False,
        help="Log lines of this level and above: info unless given.",
        rich_help_panel=_PANEL,
        show_default=False,
    ),
]
FileOption = Annotated[
    Path | None,
    typer.Option(
        "--log-file",
        envvar="PENSTOCK_LOG_FILE",
        metavar="PATH",
        help="Append the log to this file instead of writing it to stderr.",
        rich_help_panel=_PANEL,
        show_default=False,
    ),
]
FormatOption = Annotated[
    LogFormat | None,
    typer.Option(
        "--log-format",
        envvar="PENSTOCK_LOG_FORMAT",
        case_sensitive=False,
        help="Lines of text, or one JSON object per line.",
        rich_help_panel=_PANEL,
        show_default=False,
    ),
]


@contextmanager
def logged(command: str, options: LogOptions) -> Iterator[None]:
    """Log a command: its start, and the error that ends it."""
    with logging_to(options):
        _log.info("penstock %s: %s", __version__, command)
        try:
            yield
        except PenstockError as error:
            _log.error("%s failed: %s", command, error.what, extra=_parts(error))
            raise
        except OSError as error:
            _log.error("%s failed: %s", command, error, extra={"reason": str(error), SHOWN: True})
            raise


def _parts(error: PenstockError) -> dict[str, object]:
    return {"reason": error.detail or error.what, "hint": error.hint, SHOWN: True}
