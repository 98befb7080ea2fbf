"""The control folder of a checkpoint: how somebody steers and watches a run from outside of it.

control/
  <name>.request.json    what somebody wants; the run removes it before it does anything about it
  <name>.answer.json     what came of it; whoever asked removes it
  status.json            how the run is getting on
  watched.json           somebody looks at it: written anew every second, for as long as that is so

Only the owner of the checkpoint may: a folder or file that belongs to another user, or that others can write to, is not
believed. Links are not followed; what is read is plain JSON of bounded size, under names that are known.
"""

from __future__ import annotations

import os
import re
import stat
import uuid
from contextlib import suppress
from pathlib import Path

from penstock.errors import CheckpointError

FOLDER, STATUS, WATCHED = "control", "status.json", "watched.json"
REQUEST, ANSWER = ".request.json", ".answer.json"
MOST_BYTES, MOST_OF_RUN = 4096, 16 * 2**20  # of a request; of what the run writes
_LEFT_BEHIND = re.compile(r"[0-9a-f]{32}" + re.escape(ANSWER) + r"|\.[0-9a-f]{32}\.new")


class Distrusted(Exception):
    """A file that is not to be believed, and why."""


class ControlFolder:
    """Invariant: when it was opened, the folder belonged to this user and nobody else could write to it. All names are
    looked up in that folder, wherever its path may lead later."""

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
        """None where it cannot be read: a run does not end because nobody can ask it for anything."""
        with suppress(OSError), os.scandir(self._descriptor) as entries:
            return [entry.name for entry in entries]
        return []

    def read(self, name: str, most: int = MOST_BYTES) -> bytes:
        """A file of at most so many bytes; raises Distrusted. Without O_NONBLOCK a pipe would never be opened."""
        try:
            file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=self._descriptor)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise Distrusted(f"it cannot be opened: {error.strerror}") from error
        try:
            return _content(file, most)
        finally:
            os.close(file)

    def write(self, name: str, data: bytes) -> None:
        """The whole file at once, in place of one that is there. Not durable: it is for those who live now."""
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
        """Whether it was there, and is not any more."""
        try:
            os.unlink(name, dir_fd=self._descriptor)
        except OSError:
            return False
        return True

    def sweep(self, before: float) -> None:
        """Remove what dead processes and people who did not wait have left behind."""
        for name in filter(_LEFT_BEHIND.fullmatch, self.names()):
            with suppress(OSError):
                if os.stat(name, dir_fd=self._descriptor, follow_symlinks=False).st_mtime < before:
                    self.remove(name)


def _content(file: int, most: int) -> bytes:
    about = os.fstat(file)
    if (why := _unsafe(about) if stat.S_ISREG(about.st_mode) else "it is not a plain file") is not None:
        raise Distrusted(why)
    data = os.read(file, most + 1)
    if len(data) > most:
        raise Distrusted(f"it has more than {most:,} bytes")
    return data


def _unsafe(about: os.stat_result) -> str | None:
    if about.st_uid != os.geteuid():
        return "it belongs to another user"
    return "others can write to it" if about.st_mode & (stat.S_IWGRP | stat.S_IWOTH) else None


def _refused(path: Path, why: str) -> CheckpointError:
    return CheckpointError(
        "the control folder of this checkpoint cannot be trusted",
        detail=f"{path}: {why}",
        hint="only the owner of a checkpoint steers its run; if that is you, remove the folder and start the run again",
    )


def _no_folder(path: Path) -> CheckpointError:
    return CheckpointError(
        "nobody looks for requests here", detail=f"there is no {path}", hint="a run makes it when it starts: try again"
    )
