"""The memory of this process, its JVM and its workers, at a moment at which nothing happens.

Alive are the heap of the JVM after a full collection and the proportional set size of all other processes. What the JVM
has taken and not given back is in the set size of all processes only.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

if TYPE_CHECKING:
    from pyspark import SparkContext

_COLLECTIONS = 3  # what the first one frees by reference queues, a later one collects


@dataclass(frozen=True)
class Memory:
    """In bytes. `told` is what a system itself says its state takes; 0 where it says nothing."""

    heap: int
    outside: int
    processes: int
    disk: int
    told: int = 0

    @property
    def alive(self) -> int:
        return self.heap + self.outside


def memory_now(heap: Callable[[], int], checkpoint: Path, told: int = 0) -> Memory:
    """`heap` gives the bytes of the JVM, `checkpoint` is the folder whose files count as disk."""
    used, root = heap(), psutil.Process()
    sizes = [(_name(process), _set_size(process)) for process in [root, *root.children(recursive=True)]]
    outside = sum(size for name, size in sizes if name != "java")
    disk = sum(path.stat().st_size for path in checkpoint.rglob("*") if path.is_file())
    return Memory(used, outside, sum(size for _, size in sizes), disk, told)


def heap_of(context: SparkContext) -> int:
    """The bytes that are in use in the JVM of a context after full collections."""
    jvm = context._jvm
    assert jvm is not None
    for _ in range(_COLLECTIONS):
        jvm.System.gc()
        time.sleep(0.5)
    runtime = jvm.Runtime.getRuntime()
    return int(runtime.totalMemory() - runtime.freeMemory())


def _name(process: psutil.Process) -> str:
    try:
        return str(process.name())
    except psutil.Error:
        return ""


def _set_size(process: psutil.Process) -> int:
    try:
        return int(process.memory_full_info().pss)
    except (psutil.Error, AttributeError):
        return 0  # it has just ended, or the system does not tell
