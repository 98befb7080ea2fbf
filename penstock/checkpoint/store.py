"""The checkpoint folder: opening it safely, its newest manifest, and garbage collection of files that no manifest
names.

checkpoint/
  lock            who runs the query now
  query.json      what the query is, for people and for error messages
  manifests/      one per epoch, the newest three are kept
  runs/           state
  results/ late/ bad/    staged and, by default, published rows
  control/        requests to the run, and its status
"""

from __future__ import annotations

import logging
import os
import re
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from penstock.checkpoint import manifest as manifests
from penstock.checkpoint.lock import FILE, Lock
from penstock.checkpoint.sound import contradictions
from penstock.errors import CheckpointError, CorruptCheckpointError, PenstockError, StorageError
from penstock.paths import local_path
from penstock.state.model import Manifest
from penstock.storage.disk_errors import using_disks
from penstock.storage.durable import make_private_folder, sync_folder
from penstock.storage.faults import FaultPoint, reach

_log = logging.getLogger(__name__)
KEPT_MANIFESTS = 3
_EPOCH_OF_NAME = re.compile(r"e(\d+)-")


def staged_name(epoch: int, part: str, token: str, extension: str) -> str:
    """Return the name of a file of an epoch. `token` is random: a name is never used twice."""
    return f"e{epoch:012d}-{part}-{token}.{extension}"


def epoch_of_name(name: str) -> int | None:
    """Return the epoch of a file's name; None if the name has none."""
    match = _EPOCH_OF_NAME.match(name)
    return int(match[1]) if match else None


def _refuse_file(root: Path) -> None:
    """Raise CheckpointError if the path, or one of its parents, is not a folder."""
    for path in (root, *root.parents):
        if path.exists() and not path.is_dir():
            raise CheckpointError(
                f"`{root}` cannot be a checkpoint",
                detail=f"{path} is a file" if path.is_file() else f"{path} is not a folder",
                hint="name a folder; it is created if it does not exist",
            )


class Checkpoint:
    """An open checkpoint, locked against other drivers until `close`."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.manifests = root / "manifests"
        self.runs = root / "runs"
        self._lock = Lock(root / FILE)
        self._named: dict[int, set[str]] = {}  # the names in each manifest that was read for garbage collection

    @classmethod
    def open(cls, location: str | os.PathLike[str]) -> Checkpoint:
        """Open a checkpoint, creating the folder if needed, and take its lock."""
        root = checkpoint_path(location)
        _refuse_file(root)
        make_private_folder(root)
        _refuse_unsafe(root)
        checkpoint = cls(root)
        for folder in (checkpoint.manifests, checkpoint.runs):
            _make_folder(folder)
        checkpoint._lock.acquire()
        checkpoint._sweep_temporary()
        return checkpoint

    def close(self) -> None:
        """Release the lock."""
        self._lock.release()

    @contextmanager
    def explaining(self) -> Iterator[None]:
        """Translate errors of the disk. If the lock was removed, another driver may have deleted files of this one, so
        the error then says that the lock was lost."""
        try:
            with using_disks():
                yield
        except (StorageError, CorruptCheckpointError) as error:
            if self._lock.held:
                raise
            raise self._lost(error.what) from error

    def _lost(self, detail: str) -> CheckpointError:
        return CheckpointError(
            "this run has lost its checkpoint: the lock was removed while it ran",
            detail=f"{self.root / FILE}; another run may have taken the checkpoint since: {detail}",
            hint="let only one run use a checkpoint, and never remove its lock; this run stops, and what it had "
            "committed stays",
        )

    def newest(self) -> Manifest | None:
        """Return the newest manifest, to continue from; None in a new checkpoint. Raises CorruptCheckpointError if it
        is not valid."""
        known = manifests.epochs(self.manifests)
        if known:
            return self._sound(manifests.read(self.manifests, known[-1]))
        if any(self.runs.iterdir()):
            raise CorruptCheckpointError(
                "the manifests of this checkpoint are missing",
                detail=f"{self.manifests} is empty, but {self.runs} holds state",
                hint="restore the manifests from a backup, or start again with a new checkpoint",
            )
        return None

    def _sound(self, manifest: Manifest) -> Manifest:
        for what in contradictions(manifest):
            raise manifests.corrupt(self.manifests / manifests.file_name(manifest.epoch), what)
        return manifest

    def commit(self, manifest: Manifest, staging: Iterable[Path] = ()) -> None:
        """Commit an epoch. Tasks have synced the content of their files; this syncs their names, in the folders of
        state and of staged rows, before it writes the manifest that refers to them. A driver that lost its lock commits
        nothing: another driver may have deleted the files of this epoch."""
        if not self._lock.held:
            raise self._lost(f"epoch {manifest.epoch} is not committed")
        for folder in (self.runs, *staging):
            sync_folder(folder)
        manifests.commit(self.manifests, manifest)

    def discard(self, epoch: int) -> None:
        """Delete the state files of an epoch whose tasks have all ended. Deletes nothing if the epoch is committed, or
        if the lock was lost and another driver may be about to commit it."""
        if not self._lock.held or (self.manifests / manifests.file_name(epoch)).exists():
            return
        with suppress(OSError), os.scandir(self.runs) as entries:
            for entry in entries:
                if epoch_of_name(entry.name) == epoch:
                    os.unlink(entry.path)

    def collect(self, staging: Iterable[Path], recovering: bool = False) -> None:
        """Delete old manifests, and files of committed epochs that none of the kept manifests names.

        The names to keep are read from the manifests on disk, which never change, so each is read once. Files of
        uncommitted epochs are kept, because they may be in progress. Only a driver that is `recovering`, which has run
        nothing yet and holds the lock, deletes them too: a driver that died has left them.
        """
        known = manifests.epochs(self.manifests)
        for epoch in known[:-KEPT_MANIFESTS]:
            _delete(self.manifests / manifests.file_name(epoch))
        kept, read = known[-KEPT_MANIFESTS:], self._named
        self._named = {
            epoch: read[epoch] if epoch in read else manifests.names_in(self.manifests, epoch) for epoch in kept
        }
        names, upto = set[str]().union(*self._named.values()), None if recovering else known[-1]
        deleted = sum(self._collect_folder(folder, names, upto) for folder in (self.runs, *staging))
        if deleted and _log.isEnabledFor(logging.DEBUG):
            extra = {"query": self.root.name, "epoch": known[-1], "files": deleted}
            _log.debug("deleted %d files that no manifest names, after epoch %d", deleted, known[-1], extra=extra)

    def _collect_folder(self, folder: Path, names: set[str], upto: int | None) -> int:
        """Delete files that no manifest names, of epochs up to `upto` (None: of all epochs). Return their number."""
        deleted = 0
        for entry in os.scandir(folder) if folder.exists() else ():
            epoch = epoch_of_name(entry.name)
            if epoch is not None and (upto is None or epoch <= upto) and entry.name not in names:
                _delete(Path(entry.path))
                deleted += 1
        return deleted

    def _sweep_temporary(self) -> None:
        """Remove temporary manifests that a crash has left."""
        for leftover in self.manifests.glob(".*.json.*"):
            leftover.unlink(missing_ok=True)


def _delete(path: Path) -> None:
    path.unlink(missing_ok=True)
    reach(FaultPoint.COLLECTED_ONE)


def checkpoint_path(location: str | os.PathLike[str]) -> Path:
    """Return the absolute path of a checkpoint's folder."""
    return Path(local_path(os.fspath(location), "a checkpoint", CheckpointError)).expanduser().absolute()


def _make_folder(path: Path) -> None:
    try:
        make_private_folder(path)
    except (FileExistsError, NotADirectoryError) as error:
        raise CheckpointError(
            "a folder of the checkpoint cannot be created",
            detail=f"there is something other than a folder at {error.filename}",
            hint="name a folder that does not exist yet, or that of a checkpoint; if this was one, restore the folder",
        ) from error


def _refuse_unsafe(root: Path) -> None:
    if os.stat(root).st_mode & stat.S_IWOTH:
        raise CheckpointError(
            "the checkpoint folder can be written by everyone",
            detail=f"{root} has mode {stat.filemode(os.stat(root).st_mode)}",
            hint=f"chmod o-w {root}",
        )


def has_finished(root: Path) -> bool:
    """Return whether the query of a checkpoint has nothing left to do. False if the checkpoint cannot be read: opening
    it reports why."""
    folder = root / "manifests"
    with suppress(PenstockError, OSError):
        known = manifests.epochs(folder) if folder.is_dir() else []
        return bool(known) and manifests.read(folder, known[-1]).finished
    return False
