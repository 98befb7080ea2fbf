"""Find the Java that Spark runs on."""

from __future__ import annotations

import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from penstock.errors import ConfigError

LEAST_JAVA = 17
_INSTALL = f"install Java {LEAST_JAVA} or newer (openjdk-{LEAST_JAVA}-jre-headless)"
_WITHOUT = "small data also runs without Spark, with master inline"
_VERSION = re.compile(r'JAVA_VERSION="(?:1\.)?(\d+)')


@dataclass(frozen=True)
class Java:
    """A Java installation. `release` is the content of its file of that name; empty if there is none."""

    binary: Path
    release: str


def find_java() -> Java:
    """Return the Java that JAVA_HOME names, or else the one on the path. Raise an error if it is missing or too old."""
    java_home = os.environ.get("JAVA_HOME")
    java = _in_home(java_home) if java_home else _on_path()
    version = _VERSION.search(java.release)
    if version is not None and int(version[1]) < LEAST_JAVA:
        where = f"JAVA_HOME is {java_home}" if java_home else f"{java.binary} is on the path"
        raise ConfigError(
            f"Spark needs Java {LEAST_JAVA} or newer",
            detail=f"{where}, and that is Java {version[1]}",
            hint=f"{_INSTALL}, or set JAVA_HOME to one; {_WITHOUT}",
        )
    return java


def _in_home(java_home: str) -> Java:
    binary = Path(java_home, "bin", "java")
    if not os.access(binary, os.X_OK) or not binary.is_file():
        raise ConfigError(
            "Spark cannot be started: JAVA_HOME is wrong",
            detail=f"JAVA_HOME is {java_home}, and there is no program {binary}",
            hint=f"set JAVA_HOME to the folder of a Java {LEAST_JAVA} or newer, or unset it; {_WITHOUT}",
        )
    return _java(binary)


def _on_path() -> Java:
    found = shutil.which("java")
    if found is None:
        raise ConfigError(
            "Spark cannot be started: there is no Java",
            detail="JAVA_HOME is not set, and there is no `java` on the path",
            hint=f"{_INSTALL}, or set JAVA_HOME to one; {_WITHOUT}",
        )
    return _java(Path(found))


def _java(binary: Path) -> Java:
    real = binary.resolve()
    try:
        release = real.parent.parent.joinpath("release").read_text(encoding="utf-8", errors="replace")
    except OSError:
        release = ""
    return Java(real, release)
