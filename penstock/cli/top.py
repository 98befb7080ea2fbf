"""`penstock top`: watches a query that runs in another process."""

from __future__ import annotations

import sys
import time
from contextlib import suppress
from pathlib import Path

import msgspec
from rich.console import Console
from rich.live import Live

from penstock.checkpoint.control_folder import ControlFolder
from penstock.checkpoint.lock import in_use
from penstock.checkpoint.status import Status
from penstock.cli.asking import Watching, read_status
from penstock.cli.control import control_folder
from penstock.cli.keys import Keys
from penstock.cli.top_screen import picture, rows_per_table
from penstock.cli.which_checkpoint import running_checkpoint
from penstock.errors import CheckpointError

_LOOK_EVERY = 0.25  # seconds, as often as a run tells
_FIRST_WAIT, _GROUPS_WAIT = 10.0, 5.0  # seconds


def watch(checkpoint: str, once: bool, as_json: bool) -> None:
    """Where stdout is no terminal, one picture is shown."""
    root = running_checkpoint(checkpoint)
    console = Console(highlight=False)
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


def _first_status(root: Path, folder: ControlFolder) -> Status:
    """A run tells a moment after it began."""
    deadline = time.monotonic() + _FIRST_WAIT
    while (status := read_status(folder)) is None:
        if time.monotonic() >= deadline or not in_use(root):
            raise CheckpointError(
                "this run has not told how it is getting on", detail=f"there is no {folder.path / 'status.json'}",
                hint="it may still be starting: try again",
            )  # fmt: skip
        time.sleep(_LOOK_EVERY)
    return status


def _with_groups(root: Path, folder: ControlFolder, watching: Watching, status: Status) -> Status:
    """A status that tells of groups: sites do from the epoch on that begins after somebody has come to watch. Where
    none begins for a while, it is shown without them."""
    deadline = time.monotonic() + _GROUPS_WAIT
    while not status.groups_told and time.monotonic() < deadline and in_use(root):
        time.sleep(_LOOK_EVERY)
        watching.renew()
        status = read_status(folder) or status
    return status


def _live(console: Console, root: Path, folder: ControlFolder, watching: Watching, status: Status) -> None:
    """Until q, Ctrl-C or the end of the run, of which the last picture stays."""
    with Live(console=console, screen=True, auto_refresh=False) as live, Keys(sys.stdin) as keys:
        while in_use(root):
            watching.renew()
            status = read_status(folder) or status
            most = rows_per_table(status, console.height)
            live.update(picture(status, time.time(), most), refresh=True)
            if keys.pressed(_LOOK_EVERY) in {"q", "Q"}:
                return
    console.print(picture(status, status.at))
    console.print("the run has ended")
