"""Files on their way to the disk while their writer goes on: waiting for a disk takes no core."""

from __future__ import annotations

import os
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from pathlib import Path

from penstock.storage.durable import sync_file

_THREADS = 4


class Syncing:
    """Invariant: a file given to `later` is durable once `settle` has returned."""

    def __init__(self) -> None:
        self._under_way: list[Future[None]] = []

    def later(self, path: Path) -> None:
        """Begin to make a finished file durable."""
        self._under_way.append(_threads().submit(sync_file, path))

    def settle(self) -> None:
        """Wait for all of them. What went wrong with one is raised here."""
        while self._under_way:
            self._under_way.pop().result()


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_THREADS, thread_name_prefix="penstock-sync")


os.register_at_fork(after_in_child=_threads.cache_clear)  # a child has none of its parent's threads
