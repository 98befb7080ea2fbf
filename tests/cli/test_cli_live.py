"""The live line, on a terminal of its own."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from cli_case import COUNT, calls
from rich.text import Text

from tests.support.terminal import on_a_terminal

ERASE = "\x1b[2K"


def shown(folder: Path, *flags: str) -> str:
    """What `penstock run` writes on a terminal."""
    command = [sys.executable, "-m", "penstock.cli.main", "run", "shown.sql", "--master", "inline", *flags]
    return on_a_terminal(command, folder)


def test_rows_are_printed_above_the_live_line(tmp_path: Path) -> None:
    (tmp_path / "shown.sql").write_text(calls(rows=3000, more=", realtime = true") + COUNT)
    written = shown(tmp_path, "--epoch", "200ms")
    assert "low-water mark" in written
    # What stands before the last erasure of a line is not there to be seen.
    lines = [Text.from_ansi(line.rpartition(ERASE)[2]).plain.strip() for line in written.splitlines()]
    titles = [line for line in lines if re.fullmatch(r"epoch \d+", line)]
    assert len(titles) == sum("window_start" in line for line in lines) > 0
