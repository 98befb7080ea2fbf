"""The class archive: Spark's classes as the JVM has them in memory, so that it need not read them from jars again.

The first embedded Spark of a user writes the archive when it ends; later ones map it. It lies in the user's cache
folder, under a name that changes with Java and with Spark's jars. A JVM that cannot use it starts without it.
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

from penstock.runtime.java import Java

SWITCH = "PENSTOCK_CLASS_ARCHIVE"  # "off": none is written, none is used
_SUFFIX = ".jsa"
_KEPT = 3  # archives of other versions
_QUIET = ("-Xshare:auto", "-Xlog:disable", "-Xlog:all=error:stderr")  # no word of an archive that cannot be used


@dataclass(frozen=True)
class ClassArchive:
    """`path` is the archive, None where there is to be none. `draft` is where this JVM writes it when it ends, None
    where it is there already."""

    path: Path | None = None
    draft: Path | None = None

    def options(self) -> list[str]:
        """Return the options of a JVM that uses the archive, or writes it."""
        if self.draft is not None:
            return [*_QUIET, f"-XX:ArchiveClassesAtExit={self.draft}"]
        return [*_QUIET, f"-XX:SharedArchiveFile={self.path}"] if self.path is not None else []

    def publish(self) -> None:
        """Give the archive its name, once the JVM that wrote it has ended."""
        if self.path is None or self.draft is None:
            return
        with suppress(OSError):
            os.replace(self.draft, self.path)
            _remove_old(self.path)

    def discard(self) -> None:
        """Remove what a JVM has written that did not end in order."""
        if self.draft is not None:
            with suppress(OSError):
                self.draft.unlink(missing_ok=True)


def class_archive(java: Java, jars: Sequence[Path]) -> ClassArchive:
    """Return the archive for a Java and the jars of its class path."""
    if os.environ.get(SWITCH, "").lower() == "off":
        return ClassArchive()
    try:
        folder = _private_cache()
        path = folder / f"spark-{_key(java, jars)}{_SUFFIX}"
        if _is_ours(path):
            return ClassArchive(path)
    except OSError:  # no home, a full disk, a folder of somebody else
        return ClassArchive()
    return ClassArchive(path, folder / f"draft-{uuid.uuid4().hex}{_SUFFIX}")


def _private_cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(base, "penstock")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if folder.stat().st_uid != os.geteuid():
        raise PermissionError(f"{folder} belongs to somebody else")
    folder.chmod(0o700)
    return folder


def _is_ours(path: Path) -> bool:
    """Whoever could write the archive could run code in the JVM."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return False
    if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid():
        raise PermissionError(f"{path} belongs to somebody else")
    return True


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
