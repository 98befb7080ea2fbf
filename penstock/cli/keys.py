"""Keys that are pressed while a screen is shown."""

from __future__ import annotations

import os
import select
import termios
import time
import tty
from types import TracebackType
from typing import Any, TextIO


class Keys:
    """Gives keys as they are pressed, without waiting for the end of a line, while it is entered. Where the input is no
    terminal there are none. The terminal is afterwards as it was before."""

    def __init__(self, terminal: TextIO) -> None:
        self._descriptor = terminal.fileno() if terminal.isatty() else None
        self._before: list[Any] = []

    def __enter__(self) -> Keys:
        if self._descriptor is not None:
            self._before = termios.tcgetattr(self._descriptor)
            tty.setcbreak(self._descriptor)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._descriptor is not None:
            termios.tcsetattr(self._descriptor, termios.TCSADRAIN, self._before)

    def pressed(self, seconds: float) -> str:
        """The next key, "" if none is pressed so soon."""
        if self._descriptor is None:
            time.sleep(seconds)
            return ""
        ready, _, _ = select.select([self._descriptor], [], [], seconds)
        return os.read(self._descriptor, 1).decode("ascii", "replace") if ready else ""
