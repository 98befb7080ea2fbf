"""Starting Spark's JVM before anything large is imported, where it looks as if it will be wanted.

A guess: whoever wants the JVM checks that it fits, and one that nobody has asked for ends with the process.
"""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path

from penstock.errors import PenstockError
from penstock.settings import check_master, default_master
from penstock.spark.embedded.embedded import start_early

CHECKPOINTS = Path(".penstock")
_HAS_SINK = re.compile(r"\bcreate\s+sink\b", re.IGNORECASE)
_NAMES_MASTER = re.compile(r"\bmaster\b", re.IGNORECASE)


def start_spark_early(target: str | None, master: str | None, checkpoint: Path | None) -> None:
    """Start the JVM for a script that has sinks and runs for the first time; it may have finished before otherwise."""
    master = master or default_master()
    script = Path(target or "-")
    on_this_host = master == "local" or master.startswith("local[")
    if not on_this_host or _has_run_before(script, checkpoint) or not _runs_on_spark(script):
        return
    with suppress(PenstockError, OSError):  # it comes again where it can be told
        check_master(master)
        start_early(master)


def _has_run_before(script: Path, checkpoint: Path | None) -> bool:
    return checkpoint.exists() if checkpoint is not None else any(CHECKPOINTS.glob(f"{script.stem}-*"))


def _runs_on_spark(script: Path) -> bool:
    try:
        text = script.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return False
    return _HAS_SINK.search(text) is not None and _NAMES_MASTER.search(text) is None
