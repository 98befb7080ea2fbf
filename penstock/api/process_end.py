"""The end of a process that has runs: they are stopped before Python takes its modules down, and Ctrl-C is no trace."""

from __future__ import annotations

import atexit
import sys
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Protocol
from weakref import WeakSet

_PATIENCE = 5.0  # seconds for a run to give its epoch up


class Stoppable(Protocol):
    """A run, as far as its end is concerned."""

    @property
    def running(self) -> bool: ...

    @property
    def checkpoint(self) -> Path: ...

    def request_stop(self, now: bool = False) -> None: ...

    def join(self, timeout: float) -> None: ...


_runs: WeakSet[Stoppable] = WeakSet()


def prepare_process_end() -> None:
    """Show an interrupt that nobody catches in one line. Who has a hook of their own keeps it."""
    if sys.excepthook is sys.__excepthook__:
        sys.excepthook = _show


def stop_at_process_end(run: Stoppable) -> None:
    """Give the running epoch of the run up when the process ends, which loses nothing."""
    _runs.add(run)
    atexit.unregister(_stop_all)
    atexit.register(_stop_all)  # the latest is called first: before Spark is ended


def _stop_all() -> None:
    running = [run for run in _runs if run.running]
    with suppress(KeyboardInterrupt):  # the process ends already
        for run in running:
            run.request_stop(now=True)
        for run in running:
            run.join(_PATIENCE)


def _show(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if not issubclass(kind, KeyboardInterrupt):
        sys.__excepthook__(kind, error, trace)
        return
    kept = [str(run.checkpoint) for run in _runs if run.running]
    goes_on = f"; start the query again to go on from the checkpoint {', '.join(kept)}" if kept else ""
    print(f"interrupted{goes_on}", file=sys.stderr, flush=True)
