"""`penstock run --fresh`: deletes a checkpoint and the results that were published from it: a query begins anew.

Nothing is deleted that Penstock did not write: of a folder of results only its own files go, and only where the folder
says that it belongs to the query of the checkpoint.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import typer

from penstock.checkpoint import manifest as manifests
from penstock.checkpoint.lock import in_use
from penstock.cli.counted import counted
from penstock.cli.summary import shown_path
from penstock.cli.target import Job
from penstock.connectors.sinks.files import published_by
from penstock.errors import CheckpointError, ConfigError


@dataclass(frozen=True)
class _Leftovers:
    """What a query has left behind: its checkpoint, and the results of it that lie elsewhere."""

    checkpoint: Path
    files: tuple[Path, ...]
    stagings: tuple[Path, ...]

    def describe(self) -> str:
        folders = sorted({shown_path(staging.parent) for staging in self.stagings})
        results = f" and {counted(len(self.files), 'file')} of results in {', '.join(folders)}" if folders else ""
        return f"the checkpoint {shown_path(self.checkpoint)}{results}"

    def delete(self) -> None:
        """Delete results first: a crash in between leaves the checkpoint, so that the same can be done again."""
        for file in self.files:
            file.unlink(missing_ok=True)
        for staging in self.stagings:
            shutil.rmtree(staging, ignore_errors=True)
            if staging.parent.is_dir() and not any(staging.parent.iterdir()):
                staging.parent.rmdir()
        shutil.rmtree(self.checkpoint)


def begin_anew(jobs: Sequence[Job], sure: bool) -> None:
    """Delete what earlier runs of the jobs have left, after asking unless `sure`."""
    found = [leftovers for job in jobs if job.checkpoint is not None for leftovers in _left_in(job.checkpoint)]
    if not found:
        return
    if not sure:
        _ask(found)
    for leftovers in found:
        leftovers.delete()
        print(f"deleted {leftovers.describe()}", file=sys.stderr, flush=True)


def _ask(found: Sequence[_Leftovers]) -> None:
    described = "; ".join(leftovers.describe() for leftovers in found)
    if not sys.stdin.isatty():
        raise ConfigError(
            "--fresh deletes results, and nobody can be asked",
            detail=f"it would delete {described}",
            hint="add --yes to delete without being asked",
        )
    if not typer.confirm(f"delete {described}?", err=True):
        raise typer.Abort


def _left_in(checkpoint: Path) -> list[_Leftovers]:
    root = checkpoint.expanduser().absolute()
    if not root.exists():
        return []
    if root.is_symlink() or not (root / "manifests").is_dir():
        raise CheckpointError(
            f"{shown_path(root)} is not a checkpoint, so it is not deleted",
            detail="it holds no manifests" if not root.is_symlink() else "it is a link",
            hint="name the folder of a checkpoint, or remove this one by hand",
        )
    if in_use(root):
        raise CheckpointError(
            "this checkpoint is in use by another run", detail=shown_path(root), hint="stop that run first"
        )
    return [_leftovers(root)]


def _leftovers(root: Path) -> _Leftovers:
    known = manifests.epochs(root / "manifests")
    if not known:
        return _Leftovers(root, (), ())
    newest = manifests.read(root / "manifests", known[-1])
    stagings = [Path(folder) for folder in newest.folders.values() if not Path(folder).is_relative_to(root)]
    own = {staging: published_by(staging, newest.query_id) for staging in stagings}
    mine = {staging: files for staging, files in own.items() if files is not None}
    return _Leftovers(root, tuple(file for files in mine.values() for file in files), tuple(mine))
