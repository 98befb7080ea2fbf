"""Translation of file system errors into errors with message, detail and hint. The only place that translates them."""

from __future__ import annotations

import errno
import os
import pwd
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from penstock.errors import DiskFullError, StorageError
from penstock.scratch import in_scratch

_FULL = (errno.ENOSPC, errno.EDQUOT)
_DENIED = (errno.EACCES, errno.EPERM)
_LASTING = (*_FULL, *_DENIED, errno.EROFS)  # an immediate retry would fail in the same way
_GO_ON = "the checkpoint is intact, and the same command continues where it stopped"
_TEMPORARY = (
    "the environment variables TMPDIR, and for Spark SPARK_LOCAL_DIRS, say where temporary files go; a query with a "
    "checkpoint continues where it stopped, any other starts over"
)


def is_lasting(error: OSError) -> bool:
    """Return whether an immediate retry would fail too: the disk is full or read-only, or permission is denied."""
    return error.errno in _LASTING


@contextmanager
def using_disks(among_others: bool = False) -> Iterator[None]:
    """Translate all file system errors. With `among_others`, an OSError may also have another cause, so only lasting
    errors are translated."""
    try:
        yield
    except OSError as error:
        if among_others and not is_lasting(error):
            raise
        raise explained(error) from error


def explained(error: OSError, path: Path | None = None, size: int = 0) -> StorageError:
    """Return the error for a failure at `path`, or at the path that `error` names."""
    if path is None and isinstance(error.filename, str | bytes):
        path = Path(os.fsdecode(error.filename))
    where = _existing(path) if path is not None else None
    place = str(where or "a folder of the query")
    if error.errno in _FULL:
        return _full(place, path, size, over_quota=error.errno == errno.EDQUOT)
    if error.errno == errno.EROFS:
        return StorageError(
            f"{place} is read-only",
            detail=_said(error, path),
            hint=f"mount it so that it can be written, or choose another folder; {_going_on(path)}",
        )
    if error.errno in _DENIED:
        return StorageError(
            f"there is no permission to use {place}",
            detail=f"{_said(error, path)}; the user is {_user()}",
            hint=f"give this user the right to read and write there, or choose another folder; {_going_on(path)}",
        )
    return StorageError(
        f"the file system of {place} failed",
        detail=_said(error, path),
        hint="fix the cause and restart the query: it continues from the last committed epoch",
    )


def full(folder: Path | None, reported: str) -> DiskFullError:
    """Return the error for a full folder (None: unknown) that another process reported with the text `reported`."""
    if folder is None:
        return DiskFullError("there is no room left in a folder of a task", detail=reported, hint=_room_hint(None))
    detail = f"{reported}; {left}" if (left := _left(folder, 0)) else reported
    return DiskFullError(f"there is no room left in {folder}", detail=detail, hint=_room_hint(folder / "file"))


def _full(place: str, path: Path | None, size: int, over_quota: bool) -> DiskFullError:
    parts = [f"writing {path}"] if path is not None else ["the file system says so"]
    if size:
        parts.append(f"it has {size:,} bytes")
    if path is not None and not over_quota and (left := _left(Path(place), size)):
        parts.append(left)
    what = (
        f"the quota of the user {_user()} is used up in {place}" if over_quota else f"there is no room left in {place}"
    )
    return DiskFullError(what, detail=", ".join(parts), hint=_room_hint(path))


def _room_hint(path: Path | None) -> str:
    waits = "With the setting on_full = 'wait' a run waits for room instead of ending"
    return f"make room there; {_going_on(path)}. {waits}"


def _going_on(path: Path | None) -> str:
    """Return what happens to the query: a checkpoint in a temporary folder is lost with it."""
    return _TEMPORARY if path is not None and in_scratch(path) else _GO_ON


def _said(error: OSError, path: Path | None) -> str:
    said = error.strerror or str(error)
    return f"{path}: {said}" if path is not None and str(path) not in said else said


def _existing(path: Path) -> Path | None:
    """Return the nearest folder on the path that exists; None if there is none."""
    return next((folder for folder in (path, *path.parents) if folder.is_dir()), None)


def _left(folder: Path, size: int) -> str:
    """Describe the free space of a folder for a file of `size` bytes (0: unknown); empty if it cannot be determined."""
    try:
        about = os.statvfs(folder)
    except OSError:
        return ""
    if about.f_files and not about.f_favail:
        return f"no file can be added to the {about.f_files:,} that its file system can hold"
    free = about.f_bavail * about.f_frsize
    missing = f"{size - free:,} bytes are missing" if size > free else "some other process may have used the rest"
    return f"{free:,} bytes are free: {missing}" if size else f"{free:,} bytes are free"


def _user() -> str:
    with suppress(KeyError):
        return pwd.getpwuid(os.geteuid()).pw_name
    return str(os.geteuid())
