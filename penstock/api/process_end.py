"""End of a process with active runs: stop them before Python unloads its modules, and report Ctrl-C in one line."""

from __future__ import annotations

import atexit
import sys
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Protocol
from weakref import WeakSet

_PATIENCE = 5.0  # seconds for a run to abandon its epoch


class Stoppable(Protocol):
    """The part of a run that is needed to stop it."""

    @property
    def running(self) -> bool: ...

    @property
    def checkpoint(self) -> Path: ...

    def request_stop(self, now: bool = False) -> None: ...

    def join(self, timeout: float) -> None: ...


_runs: WeakSet[Stoppable] = WeakSet()


def prepare_process_end() -> None:
    """Report an uncaught KeyboardInterrupt in one line. An exception hook that the user has set is kept."""
    if sys.excepthook is sys.__excepthook__:
        sys.excepthook = _show


def stop_at_process_end(run: Stoppable) -> None:
    """Stop the run when the process ends. Its current epoch is abandoned, which loses no rows."""
    _runs.add(run)
    atexit.unregister(_stop_all)
    atexit.register(_stop_all)  # the last one registered is called first: before Spark shuts down


def _stop_all() -> None:
    """Stop all active runs."""
    running = [run for run in _runs if run.running]
    with suppress(KeyboardInterrupt):  # the process is ending anyway
        for run in running:
            run.request_stop(now=True)
        for run in running:
            run.join(_PATIENCE)


def _show(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Print an interrupt in one line with the checkpoints to continue from; pass other errors to Python's own hook."""
    if not issubclass(kind, KeyboardInterrupt):
        sys.__excepthook__(kind, error, trace)
        return
    kept = [str(run.checkpoint) for run in _runs if run.running]
    goes_on = f"; restart the query to continue from the checkpoint {', '.join(kept)}" if kept else ""
    print(f"interrupted{goes_on}", file=sys.stderr, flush=True)
