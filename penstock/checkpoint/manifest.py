"""The files of manifests: each commits an epoch and holds everything that a driver needs to continue from it.

State slices, marks, the directory, source progress and the names of staged results are committed together, by the
creation of one file. `checkpoint.format` says what is in it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from penstock.checkpoint import format
from penstock.checkpoint.format import READERS, UnreadableFormat
from penstock.errors import CheckpointError, CorruptCheckpointError
from penstock.state.model import Manifest
from penstock.storage.durable import NotDurable, create_exclusive, read_plain, reason, sync_folder
from penstock.version import __version__

_MOST_BYTES = 1 << 30  # far more than any manifest has
_FILE_NAME = re.compile(r"(\d{12})\.json")


def decode(path: Path, data: bytes) -> Manifest:
    """Return the manifest of a file's content. Raises CorruptCheckpointError if it is not valid."""
    with _naming(path):
        manifest = format.decode(data)
    if path.name != file_name(manifest.epoch):
        raise corrupt(path, f"it is the manifest of epoch {manifest.epoch}")
    for name in manifest.run_names() | {file.name for file in manifest.staged}:
        if name in ("", "..") or name != Path(name).name:  # a name with a path would reach out of the checkpoint
            raise corrupt(path, f"`{name}` is not the name of a file")
    return manifest


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Raise errors of the format as errors of the file."""
    try:
        yield
    except UnreadableFormat as error:
        raise _other_format(path, error.found) from error
    except ValueError as error:
        raise corrupt(path, str(error)) from error


def file_name(epoch: int) -> str:
    """Return the name of the manifest file of an epoch."""
    return f"{epoch:012d}.json"


def commit(folder: Path, manifest: Manifest) -> None:
    """Commit an epoch: returns only when the manifest is durable. Raises CheckpointError if another driver has
    committed this epoch.

    The file system may do the work and then report a failure, so after any failure the file itself is read. A failed
    sync is not tried again.
    """
    path, data = folder / file_name(manifest.epoch), format.encode(manifest)
    try:
        if create_exclusive(path, data):
            return _withdraw_if_overtaken(path, manifest.epoch)
    except NotDurable:
        raise
    except OSError:
        if not path.exists():
            raise
    if content(path) != data:
        raise _overtaken(path, manifest.epoch)
    sync_folder(folder)  # the manifest is ours, but the failed call did not sync its name


def _withdraw_if_overtaken(path: Path, epoch: int) -> None:
    """Remove the new manifest and raise CheckpointError if there are later ones. The name of an old epoch is free again
    after its manifest was collected."""
    newest = epochs(path.parent)[-1]
    if newest > epoch:
        path.unlink()
        raise _overtaken(path.with_name(file_name(newest)), newest)


def _overtaken(path: Path, epoch: int) -> CheckpointError:
    return CheckpointError(
        f"another driver has committed epoch {epoch} to this checkpoint",
        detail=str(path),
        hint="let only one run use a checkpoint; this one stops, and the other one continues",
    )


def read(folder: Path, epoch: int) -> Manifest:
    """Read the manifest of an epoch."""
    path = folder / file_name(epoch)
    return decode(path, content(path))


def names_in(folder: Path, epoch: int) -> set[str]:
    """Return the names of the runs and the staged files in the manifest of an epoch."""
    path = folder / file_name(epoch)
    data = content(path)
    with _naming(path):
        return format.decode_names(data)


def content(path: Path) -> bytes:
    """Return the bytes of a manifest file; raises CorruptCheckpointError if it cannot be read."""
    try:
        return read_plain(path, _MOST_BYTES)
    except OSError as error:
        raise corrupt(path, reason(error)) from error


def epochs(folder: Path) -> list[int]:
    """Return the epochs whose manifests exist, sorted."""
    return sorted(int(match[1]) for p in folder.iterdir() if (match := _FILE_NAME.fullmatch(p.name)))


def corrupt(path: Path, detail: str) -> CorruptCheckpointError:
    return CorruptCheckpointError(
        f"the manifest {path.name} of the checkpoint cannot be used",
        detail=f"{path}: {detail}",
        hint="restore the file from a backup, or start again with a new checkpoint",
    )


def _other_format(path: Path, found: int) -> CheckpointError:
    known = f"Penstock {__version__} reads {' and '.join(f'format {number}' for number in sorted(READERS))}"
    if found > max(READERS):
        return CheckpointError(
            f"the checkpoint has format {found}: a newer version of Penstock has written it",
            detail=f"{path}: {known}",
            hint="run the query with the newer version; an older one needs a new checkpoint and new folders of results",
        )
    return CheckpointError(
        f"the checkpoint has format {found}, which this version of Penstock no longer reads",
        detail=f"{path}: {known}",
        hint="finish the query with the older version that wrote it, or start again with a new checkpoint and new "
        "folders of results",
    )
