"""The sites of the demo's query, as `penstock top` sees them, and a group that moves so that one can see it."""

from __future__ import annotations

from pathlib import Path

from penstock.cli.asking import Watching, answer_to, ask, read_status
from penstock.control.folder import FOLDER, ControlFolder
from penstock.control.requests import MoveRequest
from penstock.control.status import GroupStatus, Status, SubqueryStatus


class DemoSites:
    """Watches the run of a checkpoint. `move_after` seconds into it, the busiest group is moved to another site."""

    def __init__(self, checkpoint: Path, move_after: float) -> None:
        self._checkpoint, self._move_after = checkpoint, move_after
        self._folder: ControlFolder | None = None
        self._watching: Watching | None = None
        self._asked: str | None = None

    def look(self, elapsed: float) -> Status | None:
        """The newest status of the run; None before the first."""
        if self._folder is None:
            if not (self._checkpoint / FOLDER).is_dir():
                return None
            self._folder = ControlFolder(self._checkpoint)
            self._watching = Watching(self._folder)
        assert self._watching is not None
        self._watching.renew()
        status = read_status(self._folder)
        if status is not None and self._asked is None and elapsed >= self._move_after:
            self._asked = self._ask_for_move(status, self._folder)
        return status

    def close(self) -> None:
        if self._folder is not None:
            if self._asked is not None:
                answer_to(self._folder, self._asked)  # nobody else removes it
            self._folder.close()

    def _ask_for_move(self, status: Status, folder: ControlFolder) -> str | None:
        move = busiest_move(status.subqueries[0])
        return None if move is None else ask(folder, move)


def busiest_move(subquery: SubqueryStatus) -> MoveRequest | None:
    """The move of the busiest group to the least busy of the other sites; None where there is nothing to move."""
    if len(subquery.sites) < 2 or not subquery.hottest:
        return None
    group: GroupStatus = max(subquery.hottest, key=lambda one: one.utilisation)
    others = [site for site in range(len(subquery.sites)) if site != group.site]
    return MoveRequest(group.group, min(others, key=lambda site: subquery.sites[site].utilisation), 0)
