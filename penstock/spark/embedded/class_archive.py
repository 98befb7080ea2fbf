"""The class archive (Java's class data sharing): Spark's classes in the JVM's memory format, so that it need not read
them from jars.

`python -m penstock.spark.prepare` writes the archive once, and every embedded Spark maps it. It is in the user's cache
folder. Its name contains a key of the Java and the jars of Spark, and a digest of its bytes, because a JVM crashes on a
truncated archive. A damaged archive is removed, and Spark starts without it.
"""

from __future__ import annotations

import hashlib
import os
import stat
import uuid
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import xxhash

from penstock.spark.embedded.java import Java

SWITCH = "PENSTOCK_CLASS_ARCHIVE"  # "off": use none; "write": write one when the JVM exits normally
OFF, WRITE = "off", "write"
_SUFFIX = ".jsa"
_KEPT = 3  # newest archives, of all versions
_QUIET = ("-Xshare:auto", "-Xlog:disable", "-Xlog:all=error:stderr")  # no warning if an archive cannot be used


@dataclass(frozen=True)
class ClassArchive:
    """The archive that a JVM uses or writes. `path` is the archive, None if there is none. `draft` is the file that
    this JVM writes when it exits, and `key` the start of its final name; `draft` is None if no archive is to be
    written."""

    path: Path | None = None
    draft: Path | None = None
    key: str = ""

    def options(self) -> list[str]:
        """Return the options of a JVM that uses or writes the archive."""
        if self.draft is not None:
            return [*_QUIET, f"-XX:ArchiveClassesAtExit={self.draft}"]
        return [*_QUIET, f"-XX:SharedArchiveFile={self.path}"] if self.path is not None else []

    def publish(self) -> None:
        """Rename the archive to its final name, after the JVM that wrote it has exited."""
        if self.draft is not None:
            with suppress(OSError):
                path = self.draft.with_name(f"{self.key}-{_digest(self.draft)}{_SUFFIX}")
                os.replace(self.draft, path)
                _remove_old(path)

    def discard(self) -> None:
        """Remove an archive that a JVM did not finish, or one that a JVM could not start with."""
        for path in (self.draft, self.path):
            if path is not None:
                with suppress(OSError):
                    path.unlink(missing_ok=True)


def class_archive(java: Java, jars: Sequence[Path]) -> ClassArchive:
    """Return the archive for a Java and the jars of its class path."""
    wanted = os.environ.get(SWITCH, "").lower()
    if wanted == OFF:
        return ClassArchive()
    try:
        folder = _private_cache()
        key = f"spark-{_key(java, jars)}"
        for path in sorted(folder.glob(f"{key}-*{_SUFFIX}")):
            if _is_intact(path):
                return ClassArchive(path)
            path.unlink(missing_ok=True)
    except (OSError, RuntimeError):  # no home, a full disk, a folder of another user
        return ClassArchive()
    if wanted != WRITE:  # writing takes seconds, and a JVM must normally exit at once
        return ClassArchive()
    return ClassArchive(draft=folder / f"draft-{uuid.uuid4().hex}{_SUFFIX}", key=key)


def _private_cache() -> Path:
    """Return the user's cache folder, created and readable only by the user."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(base, "penstock")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if folder.stat().st_uid != os.geteuid():
        raise PermissionError(f"{folder} belongs to another user")
    folder.chmod(0o700)
    return folder


def _is_intact(path: Path) -> bool:
    """Return whether an archive is complete and belongs to the user: another user who could write it could run code in
    the JVM."""
    found = path.lstat()
    if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid():
        return False
    return path.stem.endswith(f"-{_digest(path)}")


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, xxhash.xxh3_128).hexdigest()


def _key(java: Java, jars: Sequence[Path]) -> str:
    """Return a key that changes with the Java and with the jars."""
    facts = [str(java.binary), java.release]
    for jar in jars:
        found = jar.stat()
        facts += [str(jar), str(found.st_size), str(found.st_mtime_ns)]
    return hashlib.sha256("\n".join(facts).encode()).hexdigest()[:24]


def _remove_old(newest: Path) -> None:
    """Remove all but the newest archives."""
    archives = sorted(newest.parent.glob(f"*{_SUFFIX}"), key=lambda path: path.stat().st_mtime, reverse=True)
    for path in archives[_KEPT:]:
        path.unlink(missing_ok=True)
