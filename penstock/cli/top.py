"""`penstock top`: watch a query that runs in another process."""

from __future__ import annotations

import os
import select
import sys
import termios
import time
import tty
from contextlib import nullcontext, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, TextIO

import msgspec
from rich.console import Console
from rich.live import Live

from penstock.checkpoint.lock import LOCK_FILE as LOCK
from penstock.checkpoint.lock import in_use
from penstock.cli.asking import Watching, read_status
from penstock.cli.control import control_folder
from penstock.cli.top_screen import picture, rows_per_table
from penstock.cli.which_checkpoint import running_checkpoint
from penstock.control.folder import FOLDER, STATUS, ControlFolder
from penstock.control.status import Status
from penstock.errors import CheckpointError

_LOOK_EVERY = 0.25  # seconds; a run publishes its status as often
_GROUPS_WAIT = 5.0  # seconds


def watch(checkpoint: str, once: bool, as_json: bool) -> None:
    """Watch a run. If stdout is not a terminal, print its status once."""
    root = running_checkpoint(checkpoint)
    console = Console(highlight=False)
    _wait_for_start(root, Console(stderr=True))
    with control_folder(root) as folder, Watching(folder) as watching:
        status = _first_status(root, folder)
        if console.is_terminal and not (once or as_json):
            with suppress(KeyboardInterrupt):
                return _live(console, root, folder, watching, status)
        status = _with_groups(root, folder, watching, status)
        if as_json:
            print(msgspec.json.encode(status).decode())
        else:
            console.print(picture(status, time.time()))


def _wait_for_start(root: Path, console: Console) -> None:
    """Wait until the run has published its status. A run locks its checkpoint first and publishes once Spark is up."""
    with console.status("the query is starting") if console.is_terminal else nullcontext():
        while not _has_status(root):
            if not in_use(root):
                raise CheckpointError(
                    "the run ended before it published its status",
                    detail=f"there is no {root / FOLDER / STATUS}",
                    hint="see the output of the run, and restart it",
                )
            time.sleep(_LOOK_EVERY)


def _has_status(root: Path) -> bool:
    """Return whether the run has published a status; one older than its lock is of an earlier run."""
    try:
        return (root / FOLDER / STATUS).lstat().st_mtime_ns >= (root / LOCK).lstat().st_mtime_ns
    except FileNotFoundError:
        return False


def _first_status(root: Path, folder: ControlFolder) -> Status:
    """Return the status; wait again if the file is missing because the run is about to replace it."""
    while (status := read_status(folder)) is None:
        _wait_for_start(root, Console(stderr=True))
    return status


def _with_groups(root: Path, folder: ControlFolder, watching: Watching, status: Status) -> Status:
    """Wait for a status that includes groups: sites report them from the first epoch that begins after watching
    started. After some seconds without such an epoch, return the status without groups."""
    deadline = time.monotonic() + _GROUPS_WAIT
    while not status.has_group_statistics and time.monotonic() < deadline and in_use(root):
        time.sleep(_LOOK_EVERY)
        watching.renew()
        status = read_status(folder) or status
    return status


def _live(console: Console, root: Path, folder: ControlFolder, watching: Watching, status: Status) -> None:
    """Redraw the status until q, Ctrl-C or the end of the run; then leave the last status on the terminal."""
    with Live(console=console, screen=True, auto_refresh=False) as live, KeyPresses(sys.stdin) as keys:
        while in_use(root):
            watching.renew()
            status = read_status(folder) or status
            most = rows_per_table(status, console.height)
            live.update(picture(status, time.time(), most), refresh=True)
            if keys.pressed(_LOOK_EVERY) in {"q", "Q"}:
                return
    console.print(picture(status, status.at))
    console.print("the run has ended")


class KeyPresses:
    """Reads keys as they are pressed, without waiting for a newline, within its `with` block. Reads none if the input
    is not a terminal. Restores the terminal at the end."""

    def __init__(self, terminal: TextIO) -> None:
        self._descriptor = terminal.fileno() if terminal.isatty() else None
        self._before: list[Any] = []

    def __enter__(self) -> KeyPresses:
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
        """Return the next key; "" if none is pressed within `seconds`."""
        if self._descriptor is None:
            time.sleep(seconds)
            return ""
        ready, _, _ = select.select([self._descriptor], [], [], seconds)
        return os.read(self._descriptor, 1).decode("ascii", "replace") if ready else ""
