"""Ctrl-C while queries run: once to end cleanly, twice to stop now."""

from __future__ import annotations

import signal
from types import FrameType, TracebackType
from typing import Any

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_PATIENCE = 2  # after this many, Python's own way


class Interrupts:
    """Counts signals while it is entered."""

    def __init__(self) -> None:
        self.count = 0
        self.signal = signal.SIGINT
        self._before: dict[signal.Signals, Any] = {}

    @property
    def exit_code(self) -> int:
        return 128 + self.signal if self.count else 0

    def __enter__(self) -> Interrupts:
        self._before = {number: signal.signal(number, self._note) for number in _SIGNALS}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.signal = signal.Signals(number)
        self.count += 1
        if self.count > _PATIENCE:
            raise KeyboardInterrupt
