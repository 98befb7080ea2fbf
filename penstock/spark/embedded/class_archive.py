"""The class archive: Spark's classes as the JVM has them in memory, so that it need not read them from jars again.

`python -m penstock.spark.prepare` writes the archive once, and embedded Sparks map it. It lies in the user's cache
folder, under a name that changes with Java and with Spark's jars, and that says what its bytes must be, for a JVM
crashes on an archive that is cut off. One that is not as it was written is removed, and Spark starts without it.
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

SWITCH = "PENSTOCK_CLASS_ARCHIVE"  # "off": none is used; "write": one is written when the JVM ends in order
OFF, WRITE = "off", "write"
_SUFFIX = ".jsa"
_KEPT = 3  # archives of other versions
_QUIET = ("-Xshare:auto", "-Xlog:disable", "-Xlog:all=error:stderr")  # no word of an archive that cannot be used


@dataclass(frozen=True)
class ClassArchive:
    """`path` is the archive, None where there is none. `draft` is where this JVM writes it when it ends, and `key`
    what it will be called by; None where it is there already, or is not wanted."""

    path: Path | None = None
    draft: Path | None = None
    key: str = ""

    def options(self) -> list[str]:
        """Return the options of a JVM that uses the archive, or writes it."""
        if self.draft is not None:
            return [*_QUIET, f"-XX:ArchiveClassesAtExit={self.draft}"]
        return [*_QUIET, f"-XX:SharedArchiveFile={self.path}"] if self.path is not None else []

    def publish(self) -> None:
        """Give the archive its name, once the JVM that wrote it has ended."""
        if self.draft is not None:
            with suppress(OSError):
                path = self.draft.with_name(f"{self.key}-{_digest(self.draft)}{_SUFFIX}")
                os.replace(self.draft, path)
                _remove_old(path)

    def discard(self) -> None:
        """Remove what a JVM has written that did not end in order, or what it could not start with."""
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
    except (OSError, RuntimeError):  # no home, a full disk, a folder of somebody else
        return ClassArchive()
    if wanted != WRITE:  # a JVM that is left alone must end at once, and writing takes seconds
        return ClassArchive()
    return ClassArchive(draft=folder / f"draft-{uuid.uuid4().hex}{_SUFFIX}", key=key)


def _private_cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(base, "penstock")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if folder.stat().st_uid != os.geteuid():
        raise PermissionError(f"{folder} belongs to somebody else")
    folder.chmod(0o700)
    return folder


def _is_intact(path: Path) -> bool:
    """Whoever could write the archive could run code in the JVM, so that it must be the user's own, too."""
    found = path.lstat()
    if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid():
        return False
    return path.stem.endswith(f"-{_digest(path)}")


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, xxhash.xxh3_128).hexdigest()


def _key(java: Java, jars: Sequence[Path]) -> str:
    facts = [str(java.binary), java.release]
    for jar in jars:
        found = jar.stat()
        facts += [str(jar), str(found.st_size), str(found.st_mtime_ns)]
    return hashlib.sha256("\n".join(facts).encode()).hexdigest()[:24]


def _remove_old(newest: Path) -> None:
    archives = sorted(newest.parent.glob(f"*{_SUFFIX}"), key=lambda path: path.stat().st_mtime, reverse=True)
    for path in archives[_KEPT:]:
        path.unlink(missing_ok=True)
