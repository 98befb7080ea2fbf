"""The peak memory of a process tree while something runs: this process, a JVM it started, Python workers below that."""

from __future__ import annotations

import threading
from types import TracebackType

import psutil

PERIOD_SECONDS = 0.1


def tree_memory(root: psutil.Process) -> int:
    """The memory of `root` and all its descendants together, in bytes."""
    return sum(_memory(process) for process in [root, *root.children(recursive=True)])


def _memory(process: psutil.Process) -> int:
    """The proportional set size where the kernel tells it, else the resident size: pages that forked workers share
    would be counted once per worker in the latter."""
    try:
        with open(f"/proc/{process.pid}/smaps_rollup", encoding="ascii") as lines:
            return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))
    except (OSError, StopIteration):
        return _resident(process)


def _resident(process: psutil.Process) -> int:
    try:
        return int(process.memory_info().rss)
    except psutil.Error:
        return 0  # it ended between being listed and being asked


class PeakMemory:
    """`with PeakMemory() as memory: ...; memory.peak`. Sampled, so shorter peaks than the period may be missed."""

    def __init__(self, period: float = PERIOD_SECONDS) -> None:
        self.peak = 0
        self._period = period
        self._root = psutil.Process()
        self._stop = threading.Event()
        self._sampler = threading.Thread(target=self._sample_until_stopped, daemon=True)

    def __enter__(self) -> PeakMemory:
        self._take_sample()
        self._sampler.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._sampler.join()
        self._take_sample()

    def _sample_until_stopped(self) -> None:
        while not self._stop.wait(self._period):
            self._take_sample()

    def _take_sample(self) -> None:
        self.peak = max(self.peak, tree_memory(self._root))
