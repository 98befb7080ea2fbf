"""`penstock scale`, `move`, `split` and `rebalance`: send requests to a query that runs in another process."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path

from rich.console import Console

from penstock.checkpoint.lock import in_use
from penstock.cli.asking import ask, read_status, wait_for
from penstock.cli.which_checkpoint import running_checkpoint
from penstock.control.folder import ControlFolder
from penstock.control.requests import GROUP, Answer, MoveRequest, Request, SplitRequest
from penstock.errors import CheckpointError, ConfigError


@contextmanager
def control_folder(checkpoint: Path) -> Iterator[ControlFolder]:
    """Open the control folder of a running query."""
    folder = ControlFolder(checkpoint)
    try:
        yield folder
    finally:
        folder.close()


def request_change(checkpoint: str, request: Request, seconds: float | None) -> None:
    """Send a request to the run of a checkpoint and print the answer. With `seconds` None, do not wait for it."""
    root = running_checkpoint(checkpoint)
    with control_folder(root) as folder:
        _ask(root, folder, request, seconds)


def request_move(checkpoint: str, group: str, site: int, subquery: int | None, seconds: float | None) -> None:
    """Request a move. `subquery` may be None if there is only one."""
    _request_for(checkpoint, group, subquery, lambda number: MoveRequest(group, site, number), seconds)


def request_split(checkpoint: str, group: str, subquery: int | None, seconds: float | None) -> None:
    """Request a split. `subquery` may be None if there is only one."""
    _request_for(checkpoint, group, subquery, lambda number: SplitRequest(group, number), seconds)


def _request_for(
    checkpoint: str, group: str, subquery: int | None, request: Callable[[int], Request], seconds: float | None
) -> None:
    _check_group(group)
    root = running_checkpoint(checkpoint)
    with control_folder(root) as folder:
        _ask(root, folder, request(_only_subquery(folder) if subquery is None else subquery), seconds)


def _ask(root: Path, folder: ControlFolder, request: Request, seconds: float | None) -> None:
    name = ask(folder, request)
    if seconds is None:
        print("request sent; `penstock top` shows the outcome")
        return
    with _waiting(f"waiting for the run of {root}"):
        answer = wait_for(folder, name, seconds, lambda: in_use(root))
    _say(answer)


def _waiting(text: str) -> AbstractContextManager[object]:
    """Show `text` on stderr while the block runs, if stderr is a terminal."""
    console = Console(stderr=True)
    return console.status(text) if console.is_terminal else nullcontext()


def _say(answer: Answer) -> None:
    if answer.why_not is not None:
        raise CheckpointError("the run refused the request", detail=answer.why_not, hint=answer.detail)
    print(answer.detail or "done")


def _check_group(group: str) -> None:
    if re.match(GROUP, group) is None:
        raise ConfigError(
            f"`{group}` is not a group",
            detail="a group is written as the first bits of its hashes",
            hint="copy it from `penstock top`, as in 01101; the group of all hashes is *",
        )


def _only_subquery(folder: ControlFolder) -> int:
    """Return the number of the only subquery; raise if there are several."""
    status = read_status(folder)
    if status is not None and len(status.subqueries) == 1:
        return 0
    known = (
        "the run has not published its status yet" if status is None else _numbered([s.name for s in status.subqueries])
    )
    raise ConfigError("which subquery has the group?", detail=known, hint="add --subquery and its number")


def _numbered(names: list[str]) -> str:
    return ", ".join(f"{number}: {name}" for number, name in enumerate(names)) or "this query has none"
