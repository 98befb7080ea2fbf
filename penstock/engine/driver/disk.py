"""The disk space of a run: measure it around every epoch, and refuse epochs that would take more than is allowed."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from penstock.balance.intake.disk import PLENTY, DiskBudget
from penstock.checkpoint.store import Checkpoint
from penstock.engine.driver.intake import Intake
from penstock.engine.driver.outputs import Outputs
from penstock.errors import DiskFullError
from penstock.events import DiskPressure, EpochDropped, Event
from penstock.state.model import Manifest
from penstock.state.runs import about_bytes
from penstock.units import size_text


class DiskGuard:
    """The disk budget of a run. Invariant: once it has begun, `budget.used` is what the checkpoint took after the last
    committed epoch, and `_refusals` is how many plans of the next epoch did not fit."""

    def __init__(self, checkpoint: Checkpoint, outputs: Outputs, limit: int | None, emit: Callable[[Event], None]):
        self._checkpoint, self._outputs, self._emit = checkpoint, outputs, emit
        self.budget = DiskBudget(limit)
        self._begun, self._refusals = False, 0

    def begin(self, manifest: Manifest) -> None:
        """Measure what there is before the first epoch of a run."""
        if not self._begun:
            self._begun, free = True, _free(self._checkpoint.root)
            self.budget = replace(self.budget, used=self._measured(manifest.epoch), free=free, due=_due(manifest))

    def admits(self, before: Manifest, after: Manifest, intake: Intake) -> bool:
        """Return whether the epoch that leads to `after` may be committed; delete its files if not. Raise DiskFullError
        if no epoch can be: neither this one nor one with fewer rows.

        One without rows that leaves no more state than before, or fewer waiting rows, is always good: its files exist
        already, and nothing but such epochs frees space.
        """
        budget, limit = self.budget, self.budget.limit
        if limit is None:
            return True
        size = self._measured(after.epoch) + self._checkpoint.manifest_bytes(before.epoch)
        given = after.totals.rows_in - before.totals.rows_in
        self.budget = budget = budget.written(size - budget.used, intake.asked, given)
        if size <= limit or _only_frees(before, after, intake.asked):
            return True
        self._checkpoint.discard(after.epoch, self._outputs.staging().values())
        fewer = budget.refused(intake.asked, given)
        if fewer is None or (fewer.holds_all and not before.epoch):  # before the first epoch nothing can be freed
            self.budget = budget.again()
            raise _used_up(self._checkpoint.root, after.epoch, budget, size)
        self.budget, self._refusals = fewer, self._refusals + 1
        reason = f"it would take {size_text(size)} of the {size_text(limit)} that `disk` allows"
        self._emit(EpochDropped(after.epoch, reason, self._refusals))
        return False

    def committed(self, manifest: Manifest, rows: int, taken: tuple[int, int]) -> None:
        """Measure the disk after an epoch is committed and its unneeded files are deleted. `taken`: the rows that it
        asked for and those that it got. Without back-pressure the next one could ask for `rows` rows."""
        before, epoch, self._refusals = self.budget.pressed, manifest.epoch, 0
        used, free = self._measured(epoch), _free(self._checkpoint.root)
        if self.budget.limit is None:  # then it is measured only here, once an epoch
            self.budget = self.budget.written(used - self.budget.used, *taken)
        self.budget = now = self.budget.committed(used, free, rows, _due(manifest))
        if now.pressed != before:
            self._emit(DiskPressure(epoch, now.pressed, now.used, now.limit or 0, now.free))

    def _measured(self, epoch: int) -> int:
        return self._checkpoint.disk_bytes(self._outputs.staging().values(), epoch)


def _only_frees(before: Manifest, after: Manifest, asked: int) -> bool:
    """Return whether an epoch has taken in no rows, and left no more state than there was, or fewer waiting rows."""
    return not asked and (_state_bytes(after) <= _state_bytes(before) or _due(after) < _due(before))


def _state_bytes(manifest: Manifest) -> int:
    runs = {piece.run for sub in manifest.subqueries for site in sub.sites for piece in site.all_slices()}
    return sum(run.size for run in runs)


def _due(manifest: Manifest) -> int:
    """Return about how many bytes are to be written once more: the rows that wait at sites."""
    return sum(
        about_bytes((*site.pending, *site.held), state.directory.sites)
        for state in manifest.subqueries
        for site in state.sites
    )


def _free(folder: Path) -> int:
    """Return the free bytes of a folder's file system; PLENTY if they are not known."""
    try:
        found = os.statvfs(folder)
    except OSError:
        return PLENTY
    return found.f_bavail * found.f_frsize


def _used_up(root: Path, epoch: int, budget: DiskBudget, size: int) -> DiskFullError:
    limit = budget.limit or 0
    return DiskFullError(
        f"the checkpoint takes {size_text(budget.used)} of the {size_text(limit)} that the setting `disk` allows",
        detail=f"{root}: epoch {epoch} would take {size - limit:,} bytes more than that with the fewest rows that its "
        "sources give, and no work is left that frees space",
        hint="give `disk` more, or let state expire earlier, with shorter windows or bands of time; the checkpoint is "
        "intact, and the same command with a larger `disk` continues where it stopped. With the setting "
        "on_full = 'wait' a run waits for room instead of ending",
    )
