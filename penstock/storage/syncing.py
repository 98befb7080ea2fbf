"""Syncing files in background threads while their writer continues: waiting for a disk takes no core."""

from __future__ import annotations

import os
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from pathlib import Path

from penstock.storage.durable import sync_file

_THREADS = 4


class BackgroundSync:
    """The files that are being synced. Invariant: a file passed to `later` is durable once `settle` has returned."""

    def __init__(self) -> None:
        self._under_way: list[Future[None]] = []

    def later(self, path: Path) -> None:
        """Start to make a finished file durable."""
        self._under_way.append(_threads().submit(sync_file, path))

    def settle(self) -> None:
        """Wait until all files are durable. Raises the error of a file that could not be synced."""
        while self._under_way:
            self._under_way.pop().result()


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_THREADS, thread_name_prefix="penstock-sync")


os.register_at_fork(after_in_child=_threads.cache_clear)  # a child has none of its parent's threads
