"""Waiting for room on a disk that is full: what could not be written is tried again until it can be."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

from penstock.errors import DiskFullError
from penstock.events import DiskFull, Event
from penstock.storage.disk_errors import using_disks

LOOK_EVERY = 2.0  # seconds
Result = TypeVar("Result")


def _nothing() -> None:
    """All that was written is still needed."""


class Room:
    """Does what needs room on a disk. `waits`: a full disk does not end the run. `stopping` is set by whoever wants the
    run to end, and `given_up` says that this ended a wait."""

    def __init__(self, waits: bool, tell: Callable[[Event], None]) -> None:
        self._waits, self._tell = waits, tell
        self.stopping = threading.Event()
        self.given_up = False

    def attempt(self, epoch: int, do: Callable[[], Result], discard: Callable[[], None] = _nothing) -> Result:
        """Return what comes of `do`, which may be done again after it failed for want of room. `discard` gives back
        what a try that failed has taken."""
        while True:
            try:
                with using_disks():
                    return do()
            except DiskFullError as error:
                discard()
                if not self._waits:
                    raise
                self._tell(DiskFull(epoch, error.what, error.detail))
                if self.stopping.wait(LOOK_EVERY):
                    self.given_up = True
                    raise
