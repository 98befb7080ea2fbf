"""Progress that a Python script shows on a terminal while it waits for a query: the same line as the CLI."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from penstock.api.run_state import Progress

_LOOK_EVERY = 0.1  # seconds
_line = threading.Lock()  # held by the query that shows its line; two lines would overwrite each other


class _Running(Protocol):
    @property
    def running(self) -> bool: ...
    @property
    def progress(self) -> Progress: ...


def wanted(asked: bool | None) -> bool:
    """Return whether to show progress: as asked, by default if stderr is a terminal."""
    return sys.stderr.isatty() if asked is None else asked


@contextmanager
def shown_starting(what: str) -> Iterator[None]:
    """Show that something is starting, until the block ends."""
    from penstock.api.progress_line import screen_for_stderr  # imported late: few scripts write to a terminal

    with screen_for_stderr() as screen:
        screen.starting(what)
        yield


def watch(run: _Running, timeout: float | None) -> None:
    """Show the progress of a run until it ends or the timeout passes."""
    from penstock.api.progress_line import NamedProgress, screen_for_stderr

    if not _line.acquire(blocking=False):
        return
    try:
        deadline = None if timeout is None else time.monotonic() + timeout
        with screen_for_stderr() as screen:
            while run.running and (deadline is None or time.monotonic() < deadline):
                screen.show([NamedProgress("", run.progress)])
                time.sleep(_LOOK_EVERY)
    finally:
        _line.release()
