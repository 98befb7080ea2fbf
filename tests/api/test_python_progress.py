"""What a Python script shows while it waits for a query, on a terminal of its own and elsewhere."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import penstock
from tests.support.terminal import on_a_terminal

SCRIPT = """
import penstock as ps
calls = ps.read.calls(rows=1500, rate=1000, realtime=True)
run = calls.window(ps.tumbling("1s")).agg(n=ps.count()).to.memory().start(master="inline", epoch="100ms"{more}).wait()
print("rows:", sum(row["n"] for row in run.result().to_pylist()))
"""


def shown(folder: Path, more: str = "") -> str:
    """What a script writes on a terminal."""
    (folder / "script.py").write_text(SCRIPT.format(more=more))
    return on_a_terminal([sys.executable, "script.py"], folder)


def test_a_script_shows_the_same_line_as_the_command(tmp_path: Path) -> None:
    written = shown(tmp_path)
    assert "low-water mark" in written
    assert "rows: 1500" in written


def test_without_progress_nothing_but_the_output_is_written(tmp_path: Path) -> None:
    assert shown(tmp_path, ", progress=False").strip() == "rows: 1500"


def test_where_stderr_is_no_terminal_nothing_is_shown(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT.format(more=""))
    environment = os.environ | {"PYTHONPATH": str(Path(penstock.__file__).parent.parent)}
    done = subprocess.run(
        [sys.executable, "script.py"], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120
    )
    assert (done.stdout, done.stderr) == ("rows: 1500\n", "")
