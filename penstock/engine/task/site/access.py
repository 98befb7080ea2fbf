"""Access to the runs of a site: in place, or through the cache of its host."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

import pyarrow as pa

from penstock.engine.wire.job import EpochJob
from penstock.state.hash_ranges import Hashes
from penstock.state.runs import Slice
from penstock.storage.cache.host import Fetcher, Fetching, HostCache
from penstock.storage.open_runs import OpenRuns
from penstock.storage.run_files import Copy

EXECUTOR = "executor"  # instead of a folder: a cache in the folder that Spark gives to each executor
_SPARKS_FOLDERS = "SPARK_LOCAL_DIRS"  # set by Spark for its Python workers: the folders of their executor
OPEN_RUNS = OpenRuns()  # one per process: a reused worker keeps its runs open
_Found = TypeVar("_Found")


class RunAccess(Protocol):
    """Access to the runs that one site reads in one epoch."""

    @property
    def copy(self) -> Copy | None:
        """Return the function that also gets the content of new runs, if any."""
        ...

    def is_here(self, piece: Slice) -> bool:
        """Return whether a slice can be read without waiting."""
        ...

    def read(self, piece: Slice) -> pa.Table:
        """Return the rows of a slice without a copy; wait until they are fetched if necessary."""
        ...

    def hashes(self, piece: Slice) -> Hashes:
        """Return the hashes of a slice's rows; wait until they are fetched if necessary."""
        ...

    def size(self, piece: Slice) -> int:
        """Return the bytes of a slice's rows; wait until they are fetched if necessary."""
        ...

    def wait(self, slices: Collection[Slice], seconds: float | None) -> None:
        """Wait until the slices are fetched, for at most `seconds` (None: no limit)."""
        ...

    def brought(self) -> int:
        """Return the bytes fetched for this site since the last call."""
        ...

    def keep_only(self, names: Collection[str]) -> None:
        """Release all runs other than these: no state refers to them any more."""
        ...


@dataclass(frozen=True)
class InPlace:
    """Access to runs by mapping the files of the checkpoint into memory."""

    folder: Path
    copy: None = None

    def is_here(self, piece: Slice) -> bool:
        return True

    def read(self, piece: Slice) -> pa.Table:
        return OPEN_RUNS.read(self.folder, piece)

    def hashes(self, piece: Slice) -> Hashes:
        return OPEN_RUNS.open(self.folder, piece.run).hashes(piece.range)

    def size(self, piece: Slice) -> int:
        return OPEN_RUNS.open(self.folder, piece.run).size(piece.range)

    def wait(self, slices: Collection[Slice], seconds: float | None) -> None:
        """Return at once: all runs can be read."""

    def brought(self) -> int:
        return 0

    def keep_only(self, names: Collection[str]) -> None:
        OPEN_RUNS.keep_only(self.folder, names)


@dataclass(frozen=True)
class HostRuns:
    """The cache of a host as this process sees it, for one checkpoint."""

    cache: HostCache
    fetcher: Fetcher


class ThroughCache:
    """Access to runs through the cache of the host. Slices that are not in the cache start being fetched on
    construction."""

    def __init__(self, host: HostRuns, site: str, epoch: int, slices: Sequence[Slice]) -> None:
        self._cache, self._fetcher, self._epoch, self._slices = host.cache, host.fetcher, epoch, slices
        self._cache.needs(site, epoch, slices)
        self._fetcher.begin([piece for piece in slices if not self._cache.is_here(piece)])

    @property
    def copy(self) -> Copy:
        return self._cache.put

    def is_here(self, piece: Slice) -> bool:
        return self._cache.is_here(piece)

    def read(self, piece: Slice) -> pa.Table:
        return self._fetched(piece, self._cache.read)

    def hashes(self, piece: Slice) -> Hashes:
        return self._fetched(piece, self._cache.hashes)

    def size(self, piece: Slice) -> int:
        return self._fetched(piece, self._cache.size)

    def _fetched(self, piece: Slice, read: Callable[[Slice], _Found | None]) -> _Found:
        """Return what is read of a slice; fetch the slice until it can be read."""
        while (found := read(piece)) is None:
            self._fetcher.begin([piece])
            self._fetcher.wait([piece], None)
        return found

    def wait(self, slices: Collection[Slice], seconds: float | None) -> None:
        self._fetcher.wait(slices, seconds)

    def brought(self) -> int:
        return self._fetcher.brought(self._slices)

    def keep_only(self, names: Collection[str]) -> None:
        self._cache.keep_only(names, self._epoch)
        self._fetcher.keep_only(names)


HOSTS: dict[tuple[Path, Path], HostRuns] = {}  # by (cache folder, runs folder); one of each per process


def cache_root(setting: str) -> Path | None:
    """Return the folder that a setting names; None if runs are read from the checkpoint directly."""
    if setting != EXECUTOR:
        return Path(setting) if setting else None
    folders = os.environ.get(_SPARKS_FOLDERS, "")
    return Path(folders.split(",")[0]) / "penstock-runs" if folders else None


def run_access(job: EpochJob, site: str, slices: Sequence[Slice]) -> RunAccess:
    """Return the access for a site that needs these slices, which are fetched in the given order."""
    root = cache_root(job.cache)
    if root is None:
        return InPlace(job.runs)
    if (root, job.runs) not in HOSTS:
        cache = HostCache(root, job.runs, job.cache_bytes)
        HOSTS[root, job.runs] = HostRuns(cache, Fetching(cache.fetch))
    return ThroughCache(HOSTS[root, job.runs], site, job.epoch, slices)
