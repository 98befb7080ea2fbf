"""The checkpoint folder: opening it safely, its newest manifest, and garbage collection of files that no manifest
names.

checkpoint/
  lock            who runs the query now
  query.json      what the query is, for people and for error messages
  manifests/      one per epoch, the newest three are kept
  runs/           state
  results/ late/ bad/    staged and, by default, published rows
  control/        requests to the run, and its status

Validity checks of a manifest as data: whatever its checksum says, it must be one that a driver could have written.

Numbers are in their ranges, counts are consistent, marks cover the hashes of their sites, and no row is stored twice.
What depends on the query, such as the number of its ports, is checked where the query is known.
"""

from __future__ import annotations

import logging
import os
import re
import stat
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path

from penstock.checkpoint import manifest as manifests
from penstock.checkpoint.lock import LOCK_FILE, Lock
from penstock.checkpoint.usage import DiskUsage
from penstock.errors import CheckpointError, CorruptCheckpointError, PenstockError, StorageError
from penstock.paths import local_path
from penstock.progress.mark import MAX_TIME, MIN_TIME, Mark
from penstock.settings import MOST_SITES
from penstock.state.hash_ranges import HASH_END, HashRange, remaining
from penstock.state.model import Manifest, SiteState, SourceState, Staged, SubqueryState
from penstock.state.runs import RunFile, Slice
from penstock.storage.disk_errors import using_disks
from penstock.storage.durable import epoch_of_name, make_private_folder, sync_folder
from penstock.storage.faults import FaultPoint, reach
from penstock.storage.run_files import block_length

_log = logging.getLogger(__name__)
KEPT_MANIFESTS = 3


_MOST = 2**63 - 1  # the largest count
_CHECKSUM = re.compile(r"[0-9a-f]{16}")


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
        self._lock = Lock(root / LOCK_FILE)
        self._named: dict[int, set[str]] = {}  # the names in each manifest that was read for garbage collection
        self._usage = DiskUsage()

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
            detail=f"{self.root / LOCK_FILE}; another run may have taken the checkpoint since: {detail}",
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

    def disk_bytes(self, staging: Iterable[Path], epoch: int) -> int:
        """Return the bytes of all files of state, of staged rows and of manifests. The tasks of `epoch` have ended."""
        return self._usage.measure((self.runs, self.manifests, *staging), epoch)

    def manifest_bytes(self, epoch: int) -> int:
        """Return the bytes of the manifest of an epoch; 0 if there is none."""
        with suppress(OSError):
            return (self.manifests / manifests.file_name(epoch)).stat().st_size
        return 0

    def discard(self, epoch: int, staging: Iterable[Path] = ()) -> None:
        """Delete the files of state and of staged rows of an epoch whose tasks have all ended. Deletes nothing if the
        epoch is committed, or if the lock was lost and another driver may be about to commit it."""
        if not self._lock.held or (self.manifests / manifests.file_name(epoch)).exists():
            return
        for folder in (self.runs, *staging):
            with suppress(OSError), os.scandir(folder) as entries:
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


def contradictions(manifest: Manifest) -> Iterator[str]:
    """Yield what is not valid in a manifest, one message each."""
    totals = manifest.totals
    for count in (totals.rows_in, totals.rows_out, totals.late_rows, totals.bad_rows, manifest.asked_sites):
        yield from _count(count, "a total")
    for source in manifest.sources:
        yield from _of_source(source)
    for subquery in manifest.subqueries:
        yield from _of_subquery(subquery)
    for file in manifest.staged:
        yield from _of_staged(file, manifest.folders)
    for output, epoch in manifest.published.items():
        if output not in manifest.folders or not 0 <= epoch <= manifest.epoch:
            yield f"`{output}` was published by epoch {epoch}, which is impossible"


def _of_staged(file: Staged, outputs: Collection[str]) -> Iterator[str]:
    yield from _count(file.rows, f"the number of rows of {file.name}")
    yield from _count(file.size, f"the size of {file.name}")
    if not _CHECKSUM.fullmatch(file.checksum):
        yield f"the checksum of {file.name} is not valid"
    if file.output not in outputs:
        yield f"{file.name} is staged for `{file.output}`, which is not an output"


def _of_source(source: SourceState) -> Iterator[str]:
    yield from _count(source.rows, "the number of rows of a source")
    yield from _marks([*source.marks.values(), source.floor])


def _of_subquery(state: SubqueryState) -> Iterator[str]:
    directory = state.directory
    if not 1 <= directory.sites <= MOST_SITES or len(state.sites) != directory.sites:
        yield f"it has the state of {len(state.sites)} sites, and a directory of {directory.sites}"
        return
    for number, site in enumerate(state.sites):
        yield from _of_site(site, directory.ranges_of(number))
    yield from _held_twice(state)


def _of_site(site: SiteState, home: Iterable[HashRange]) -> Iterator[str]:
    ranges, parked = [part.range for part in site.marks], site.parked_ranges()
    sliced = [piece.range for piece in site.all_slices()]
    if wrong := [part for part in (*ranges, *parked, *sliced) if not _is_range(part)]:
        yield f"{wrong[0].low} to {wrong[0].high} is not a range of hashes"
        return
    if any(before.high > behind.low for before, behind in pairwise(ranges)) or remaining(home, ranges):
        yield "the marks of a site do not cover its hashes, or some of them twice"
    if any(before.high > behind.low for before, behind in pairwise(parked)) or remaining(parked, ranges):
        yield "parked ranges of a site overlap, or have no marks"
    if not all(one.generations for one in site.parked) or (site.active and not parked):
        yield "a site has a parked range without a generation, or active rows without a parked range"
    if not 0 <= site.turn < HASH_END:
        yield f"{site.turn} is not a hash"
    yield from _marks([*(mark for part in site.marks for mark in part.marks), site.released])
    for run in {piece.run for piece in site.all_slices()}:
        yield from _of_run(run)


def _of_run(run: RunFile) -> Iterator[str]:
    yield from _count(run.port, f"the port of {run.name}")
    if not (1 <= run.rows <= run.size <= _MOST):
        yield f"{run.name} cannot have {run.rows} rows in {run.size} bytes"
    if not MIN_TIME <= run.min_time <= run.median_time <= run.max_time <= MAX_TIME:
        yield f"the times of {run.name} are not in order"
    blocks = -(-run.size // block_length(run.size)) if run.blocks else 0
    if not _CHECKSUM.fullmatch(run.checksum) or not re.fullmatch(rf"([0-9a-f]{{16}}){{{blocks}}}", run.blocks):
        yield f"the checksums of {run.name} are not valid"


def _held_twice(state: SubqueryState) -> Iterator[str]:
    """Yield messages for rows that are stored twice. Slices of a run must not overlap, not even across sites, except
    for spread hashes."""
    spread = [HashRange(cells.hash, cells.hash + 1) for cells in state.directory.spread]
    by_run: dict[str, list[Slice]] = defaultdict(list)
    for piece in (piece for site in state.sites for piece in site.all_slices()):
        by_run[piece.run.name].append(piece)
    for name, pieces in by_run.items():
        if len({piece.run for piece in pieces}) > 1:
            yield f"it has two descriptions of {name}"
        own = sorted(part for piece in pieces for part in remaining([piece.range], spread))
        if any(before.high > behind.low for before, behind in pairwise(own)):
            yield f"rows of {name} are stored twice"


def _marks(marks: Iterable[Mark]) -> Iterator[str]:
    for mark in marks:
        if not MIN_TIME <= mark.at <= MAX_TIME or (mark.ended and mark.at != MAX_TIME):
            yield f"{mark.at} is not a mark"


def _is_range(part: HashRange) -> bool:
    return 0 <= part.low < part.high <= HASH_END


def _count(number: int, what: str) -> Iterator[str]:
    if not 0 <= number <= _MOST:
        yield f"{what} cannot be {number}"
