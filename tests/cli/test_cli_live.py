"""The live line, on a terminal of its own."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

from cli_case import COUNT, calls
from rich.text import Text

import penstock

ERASE = "\x1b[2K"


def on_a_terminal(folder: Path, *flags: str) -> str:
    """What `penstock run` writes where stdout and stderr are one terminal, with its control sequences."""
    command = [sys.executable, "-m", "penstock.cli.main", "run", "shown.sql", "--master", "inline", *flags]
    environment = os.environ | {"PYTHONPATH": str(Path(penstock.__file__).parent.parent), "TERM": "xterm"}
    ours, theirs = pty.openpty()
    with subprocess.Popen(command, cwd=folder, env=environment, stdin=theirs, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        written = b""
        try:
            while chunk := os.read(ours, 65536):
                written += chunk
        except OSError:  # how a terminal says that nobody writes to it any more
            pass
        finally:
            os.close(ours)
    assert process.returncode == 0, written.decode()
    return written.decode()


def test_rows_are_printed_above_the_live_line(tmp_path: Path) -> None:
    (tmp_path / "shown.sql").write_text(calls(rows=3000, more=", realtime = true") + COUNT)
    written = on_a_terminal(tmp_path, "--epoch", "200ms")
    assert "low-water mark" in written
    # What stands before the last erasure of a line is not there to be seen.
    lines = [Text.from_ansi(line.rpartition(ERASE)[2]).plain.strip() for line in written.splitlines()]
    titles = [line for line in lines if re.fullmatch(r"epoch \d+", line)]
    assert len(titles) == sum("window_start" in line for line in lines) > 0
