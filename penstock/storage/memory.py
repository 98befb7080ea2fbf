"""The memory of this process and what it may use: its resident set, and the limit of its machine or control group.

The functions over texts are pure; the texts are those of Linux. Elsewhere nothing is known, which is written as 0.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path, PurePosixPath

_PROC, _GROUPS = Path("/proc"), Path("/sys/fs/cgroup")
_UNIFIED, _OF_MEMORY = "memory.max", "memory.limit_in_bytes"  # the limit of a control group, by version 2 and 1


def resident_bytes() -> int:
    """Return the bytes of this process that are in memory, mapped files included; 0 if unknown."""
    return bytes_of("VmRSS", _text(_PROC / "self/status"))


@cache  # it hardly ever changes, and several files are read for it
def memory_limit() -> int:
    """Return the bytes that this process may use: those of the machine, or less if its control group, or one that
    contains it, has a limit; 0 if unknown. Other processes may use the same memory."""
    limits = (_text(_GROUPS / name) for name in limit_files(_text(_PROC / "self/cgroup")))
    return least_limit(_text(_PROC / "meminfo"), limits)


def bytes_of(field: str, text: str) -> int:
    """Return a field of /proc/meminfo or /proc/self/status in bytes; 0 if it is missing."""
    found = re.search(rf"^{field}:\s+(\d+) kB$", text, re.MULTILINE)
    return 1024 * int(found[1]) if found else 0


def limit_files(groups: str) -> list[str]:
    """Return the names, below /sys/fs/cgroup, of the files that may have a limit, from /proc/self/cgroup: those of the
    process's control group and of all that contain it. Inside a container some of them may not exist."""
    names: list[str] = []
    for line in groups.splitlines():
        _, kinds, path = line.split(":", 2)
        own = PurePosixPath(path.lstrip("/"))
        for group in (own, *own.parents) if own.parts else (own,):
            if not kinds:
                names.append(str(group / _UNIFIED))
            elif "memory" in kinds.split(","):
                names.append(str("memory" / group / _OF_MEMORY))
    return names


def least_limit(meminfo: str, limits: Iterable[str]) -> int:
    """Return the memory of the machine, or the least of the limits if that is less. A text that is not a number, as
    `max`, is no limit."""
    numbers = [int(text) for text in limits if text.strip().isdecimal()]
    return min((number for number in (bytes_of("MemTotal", meminfo), *numbers) if number), default=0)


def _text(path: Path) -> str:
    """Return the content of a file; empty if it cannot be read."""
    try:
        return path.read_text()
    except OSError:
        return ""
