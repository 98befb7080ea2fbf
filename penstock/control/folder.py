"""The control folder of a checkpoint, by which other processes control and monitor a run.

control/
  <name>.request.json    a request; the run removes it before it carries it out
  <name>.answer.json     the outcome; removed by the process that made the request
  status.json            the status of the run
  watched.json           rewritten every second while the status is watched

Only the owner of the checkpoint has access: a folder or file that belongs to another user, or that others can write to,
is not trusted. Links are not followed; what is read is plain JSON of bounded size, under known names.
"""

from __future__ import annotations

import os
import re
import stat
import uuid
from contextlib import suppress
from pathlib import Path

import msgspec

from penstock.errors import CheckpointError
from penstock.version import __version__

CONTROL_FORMAT = 1  # of requests and of the status; a file without a number has the first format
FOLDER, STATUS, WATCHED = "control", "status.json", "watched.json"
REQUEST, ANSWER = ".request.json", ".answer.json"
MOST_BYTES, MOST_OF_RUN = 4096, 16 * 2**20  # bytes of a request; bytes of a file that the run writes
_LEFT_BEHIND = re.compile(r"[0-9a-f]{32}" + re.escape(ANSWER) + r"|\.[0-9a-f]{32}\.new")


class UntrustedFile(Exception):
    """A file that must not be trusted, and why."""


class _FolderVersion(msgspec.Struct):
    """The part of a request or a status that is read first."""

    format: int = CONTROL_FORMAT


def refuse_other_format(data: bytes) -> None:
    """Raise UntrustedFile if a request or a status has another format: two versions of Penstock may meet here."""
    if (found := msgspec.json.decode(data, type=_FolderVersion).format) != CONTROL_FORMAT:
        raise UntrustedFile(
            f"it has format {found}, and Penstock {__version__} reads format {CONTROL_FORMAT}: "
            "use one version to run a query and to control it"
        )


class ControlFolder:
    """An open control folder. Invariant: when it was opened, it belonged to this user and no other user could write to
    it. All names are resolved relative to that folder, even if its path is replaced later."""

    def __init__(self, checkpoint: Path) -> None:
        self.path = checkpoint / FOLDER
        try:
            self._descriptor = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except FileNotFoundError:
            raise _no_folder(self.path) from None
        except OSError as error:
            raise _refused(self.path, f"it cannot be opened as a folder: {error.strerror}") from None
        if (why := _unsafe(os.fstat(self._descriptor))) is not None:
            self.close()
            raise _refused(self.path, why)

    def close(self) -> None:
        os.close(self._descriptor)

    def names(self) -> list[str]:
        """Return the names of the files; empty if the folder cannot be read: that must not end a run."""
        with suppress(OSError), os.scandir(self._descriptor) as entries:
            return [entry.name for entry in entries]
        return []

    def read(self, name: str, most: int = MOST_BYTES) -> bytes:
        """Return the content of a file of at most `most` bytes. Raises UntrustedFile, or FileNotFoundError. O_NONBLOCK
        keeps the open of a pipe from waiting."""
        try:
            file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=self._descriptor)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise UntrustedFile(f"it cannot be opened: {error.strerror}") from error
        try:
            return _content(file, most)
        finally:
            os.close(file)

    def write(self, name: str, data: bytes) -> None:
        """Write or replace a file atomically. Not durable: only running processes read it."""
        staged = f".{uuid.uuid4().hex}.new"
        file = os.open(staged, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=self._descriptor)
        try:
            with os.fdopen(file, "wb") as writing:
                writing.write(data)
            os.rename(staged, name, src_dir_fd=self._descriptor, dst_dir_fd=self._descriptor)
        except BaseException:
            self.remove(staged)
            raise

    def remove(self, name: str) -> bool:
        """Remove a file; return False if it could not be removed."""
        try:
            os.unlink(name, dir_fd=self._descriptor)
        except OSError:
            return False
        return True

    def sweep(self, before: float) -> None:
        """Remove answers and temporary files last changed before `before`, in seconds since 1970: no process waits for
        them."""
        for name in filter(_LEFT_BEHIND.fullmatch, self.names()):
            with suppress(OSError):
                if os.stat(name, dir_fd=self._descriptor, follow_symlinks=False).st_mtime < before:
                    self.remove(name)


def _content(file: int, most: int) -> bytes:
    """Return the content of an open file. Raises UntrustedFile if it is unsafe, not a regular file, or too large."""
    about = os.fstat(file)
    if (why := _unsafe(about) if stat.S_ISREG(about.st_mode) else "it is not a plain file") is not None:
        raise UntrustedFile(why)
    data = os.read(file, most + 1)
    if len(data) > most:
        raise UntrustedFile(f"it has more than {most:,} bytes")
    return data


def _unsafe(about: os.stat_result) -> str | None:
    """Return why a file or a folder is not trusted; None if it is."""
    if about.st_uid != os.geteuid():
        return "it belongs to another user"
    return "others can write to it" if about.st_mode & (stat.S_IWGRP | stat.S_IWOTH) else None


def _refused(path: Path, why: str) -> CheckpointError:
    return CheckpointError(
        "the control folder of this checkpoint cannot be trusted",
        detail=f"{path}: {why}",
        hint="only the owner of a checkpoint controls its run; if that is you, remove the folder and restart the run",
    )


def _no_folder(path: Path) -> CheckpointError:
    return CheckpointError(
        "no query is running here", detail=f"there is no {path}", hint="a run creates it when it starts: try again"
    )
