"""The memory of a system's processes, looked at from outside.

Pages of the input files that a process has mapped do not count: they are the page cache of what it reads. All other
mapped files count, so state that is mapped from files does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psutil

_KILOBYTE = 1024


@dataclass(frozen=True)
class Held:
    """What a process holds, in bytes: `resident`, and `share`, where a page that n processes hold counts 1/n."""

    resident: int
    share: int


@dataclass
class Peaks:
    """What has been seen of a tree of processes: `idle`, its memory when the query started, and `most`. `first` and
    `highest` have what each Python process held then, or at first if it is younger, and at most."""

    without: Path
    idle: int = 0
    most: int = 0
    first: dict[int, int] = field(default_factory=dict)
    highest: dict[int, int] = field(default_factory=dict)

    def look(self, tree: Iterable[psutil.Process], begins: bool = False) -> None:
        """Take a sample. If the query `begins`, it is that of the idle system, and whatever was before is forgotten."""
        held = {process: found for process in tree if (found := held_by(process.pid, self.without)) is not None}
        shared = sum(one.share for one in held.values())
        workers = {process.pid: one.resident for process, one in held.items() if _is_python(process)}
        if begins:
            self.idle, self.most, self.first, self.highest = shared, 0, {}, {}
        self.most = max(self.most, shared)
        self.first = workers | self.first
        self.highest |= {pid: max(now, self.highest.get(pid, 0)) for pid, now in workers.items()}

    def grown(self) -> tuple[int, int]:
        """Return what the Python process that has grown most held at first and at most."""
        pairs = [(first, self.highest[pid]) for pid, first in self.first.items()]
        return max(pairs, key=lambda pair: pair[1] - pair[0], default=(0, 0))


def tree_of(root: psutil.Process) -> list[psutil.Process]:
    """Return a process and all below it; nothing once it has ended."""
    try:
        return [root, *root.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def held_by(pid: int, without: Path) -> Held | None:
    """Return what a process holds apart from mapped files in the folder `without`; None if it has ended."""
    try:
        with open(f"/proc/{pid}/smaps", encoding="utf-8", errors="replace") as lines:
            return summed(lines, str(without))
    except OSError:
        return None


def summed(lines: Iterable[str], without: str) -> Held:
    """Return the sums over the maps of a process, as the kernel lists them, of files that are not in `without`."""
    resident = share = 0
    for name, kilobytes in _sizes(lines, without):
        if name == "Rss:":
            resident += kilobytes
        else:
            share += kilobytes
    return Held(resident * _KILOBYTE, share * _KILOBYTE)


def _sizes(lines: Iterable[str], without: str) -> Iterator[tuple[str, int]]:
    counts = True
    for line in lines:
        if line.startswith(("Rss:", "Pss:")):
            if counts:
                name, kilobytes, _ = line.split(maxsplit=2)
                yield name, int(kilobytes)
        elif line[0] in "0123456789abcdef":  # a map begins with its addresses and ends with its file
            counts = f" {without}/" not in line


def _is_python(process: psutil.Process) -> bool:
    try:
        return "python" in process.name()
    except psutil.Error:
        return False
