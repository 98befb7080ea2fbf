"""Run a command on a pseudo-terminal, for tests of what users see there."""

from __future__ import annotations

import os
import pty
import subprocess
from collections.abc import Sequence
from pathlib import Path

import penstock


def on_a_terminal(command: Sequence[str], folder: Path) -> str:
    """Return the output of a command whose stdout and stderr are one terminal, with its control sequences."""
    environment = os.environ | {"PYTHONPATH": str(Path(penstock.__file__).parent.parent), "TERM": "xterm"}
    ours, theirs = pty.openpty()
    with subprocess.Popen(command, cwd=folder, env=environment, stdin=theirs, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        written = b""
        try:
            while chunk := os.read(ours, 65536):
                written += chunk
        except OSError:  # the other end of the terminal is closed
            pass
        finally:
            os.close(ours)
    assert process.returncode == 0, written.decode()
    return written.decode()
