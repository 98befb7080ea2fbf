"""Memory: the budget of a site, the pages of state that stay resident, and what this process uses and may use.

Everything that grows with the data is cut to a share of the budget: rows that arrive, rows that an item works on, rows
that are merged, and pages of state that stay resident. State itself is in files and takes memory only while it is read.

Pages of a mapped file count as resident memory of the process once they are read. When those that were read exceed a
limit, all of them are given back: they stay in the page cache of the system, from where they return without a copy.

The limit of a machine or control group is read from the texts of Linux. Elsewhere it is not known, written as 0.
"""

from __future__ import annotations

import mmap
import re
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePosixPath
from weakref import WeakSet

from penstock.units import MEGABYTE

USUAL = 2048 * MEGABYTE  # of a site, where the memory of the machine is not known
PART_OF_MACHINE = 0.5  # for all sites together; the rest is for the driver, Spark, and the page cache
_PROC, _GROUPS = Path("/proc"), Path("/sys/fs/cgroup")
_UNIFIED, _OF_MEMORY = "memory.max", "memory.limit_in_bytes"  # the limit of a control group, by version 2 and 1


@dataclass(frozen=True)
class Budget:
    """The bytes that a site may use, beyond what an idle worker needs. The shares add up to less than all of it, since
    kernels need working space, about as much as the rows of an item take."""

    total: int

    @property
    def pages(self) -> int:
        """Return the bytes of state that may be resident because they were read."""
        return max(1, self.total // 8)

    @property
    def arrivals(self) -> int:
        """Return the bytes of arriving rows that a site works on from memory; more are written to files first."""
        return max(1, self.total // 8)

    @property
    def item(self) -> int:
        """Return the most bytes of the rows of a work item, unless they have one hash."""
        return max(1, min(256 * MEGABYTE, self.total // 16))

    @property
    def piece(self) -> int:
        """Return the bytes of state that are merged at once, into one run."""
        return max(1, min(64 * MEGABYTE, self.total // 16))

    @property
    def run(self) -> int:
        """Return the size limit of a run in bytes; a run of one row may exceed it."""
        return max(1, min(256 * MEGABYTE, self.total // 8))


def budget_for(memory: int | None, machine: int, sites: int) -> Budget:
    """Return the budget of a site: `memory` if it is given, or else the share of one of `sites` sites on a machine with
    so many bytes (0: not known)."""
    if memory:
        return Budget(memory)
    return Budget(int(machine * PART_OF_MACHINE) // max(1, sites) if machine else USUAL)


class ResidentPages:
    """The pages of mapped runs that this process has read. Invariant: at most about `limit` bytes were read since all
    pages of all maps were last given back. Of all maps, because rows and hashes may be used long after they were
    read."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._maps: WeakSet[mmap.mmap] = WeakSet()
        self._read, self._lock = 0, threading.Lock()

    def add(self, mapped: mmap.mmap) -> None:
        """Add the map of a file."""
        with self._lock:
            self._maps.add(mapped)

    def read(self, size: int) -> None:
        """Record that `size` bytes of some map are about to be read; give all pages back if there are too many."""
        with self._lock:
            self._read += size
            if self._read > self.limit:
                self._read = size
                self._give_back()

    def give_back(self) -> None:
        """Give all pages back."""
        with self._lock:
            self._read = 0
            self._give_back()

    def _give_back(self) -> None:
        for mapped in self._maps:  # a page that is read again comes back from the file
            mapped.madvise(mmap.MADV_DONTNEED)


LOOK_UP = 3 * 65_536  # bytes that become resident by a lookup: of a page and its neighbours, in up to three places
RESIDENT = ResidentPages(1 << 30)  # one per process, as its memory is


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
