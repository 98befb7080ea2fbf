"""A stdout whose lines appear above a live line, for when both are on the same terminal."""

from __future__ import annotations

import io
from typing import TextIO

from rich.console import Console
from rich.text import Text


class AboveLine(io.TextIOBase):
    """Passes whole lines on to the console of the live line. Rich's own redirection does not do: a console that prints
    to stdout looks through it and writes to the terminal, and tears the line."""

    def __init__(self, console: Console, terminal: TextIO) -> None:
        self._console, self._terminal, self._unfinished = console, terminal, ""

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._terminal.encoding

    def isatty(self) -> bool:
        return self._terminal.isatty()

    def fileno(self) -> int:
        return self._terminal.fileno()

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        lines, newline, self._unfinished = (self._unfinished + text).rpartition("\n")
        if newline:
            self._console.print(Text.from_ansi(lines), soft_wrap=True, highlight=False)
        return len(text)

    def finish(self) -> None:
        """Write what did not end in a newline."""
        if self._unfinished:
            self.write("\n")
