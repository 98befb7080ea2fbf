"""Read and write the state of a site: slices, in place or through the cache of the host, and new runs."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

import numpy as np
import pyarrow as pa

from penstock.engine.wire.job import EpochJob
from penstock.operators.arrange import hashes_of, times_of
from penstock.operators.protocol import Stored
from penstock.state.hash_ranges import EVERYTHING, Hashes, HashRange, point
from penstock.state.runs import RunFile, Slice
from penstock.storage.cache.host import Fetcher, Fetching, HostCache
from penstock.storage.durable import Sync, staged_name, sync_file
from penstock.storage.memory import USUAL, Budget
from penstock.storage.open_runs import OpenRuns
from penstock.storage.run_files import Copy, corrupt, write_run

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


class Storage:
    """The runs of one site in one epoch. `part` makes the names of new runs unique among the sites of an epoch; `sync`
    makes the runs durable; `schema_of` returns the columns that a run must have, if known. `budget` bounds the size of
    runs. A new run is a slice of the range `home`, whichever of its hashes have rows: so slices have few borders. Once
    `merge_bytes` are written, there is no room on the disk to merge runs (None: no bound)."""

    def __init__(
        self,
        folder: Path,
        epoch: int,
        part: str,
        access: RunAccess | None = None,
        sync: Sync = sync_file,
        schema_of: Callable[[RunFile], pa.Schema | None] = lambda run: None,
        budget: Budget = Budget(USUAL),  # noqa: B008 - a frozen value
        home: HashRange = EVERYTHING,
        merge_bytes: int | None = None,
    ) -> None:
        self.budget, self._home = budget, home
        self._folder, self._epoch, self._part, self._sync = folder, epoch, part, sync
        self._access = access or InPlace(folder)
        self._schema_of, self._checked = schema_of, set[str]()
        self._merge_bytes, self._bytes_written = merge_bytes, 0
        self._written: dict[str, Hashes] = {}  # by run: statistics need not open a run that was just written

    def read(self, piece: Slice) -> pa.Table:
        """Return the rows of a slice; check the columns of its run when it is read first."""
        rows = self._access.read(piece)
        if piece.run.name not in self._checked:  # once is enough: a run does not change
            self._check(piece.run, rows.schema)
            self._checked.add(piece.run.name)
        return rows

    def _check(self, run: RunFile, found: pa.Schema) -> None:
        wanted = self._schema_of(run)
        if wanted is not None and not found.equals(wanted):
            raise corrupt(self._folder / run.name, f"its columns are {_columns(found)}, not {_columns(wanted)}")

    def is_here(self, piece: Slice) -> bool:
        """Return whether the rows of a slice can be read without waiting for a fetch."""
        return self._access.is_here(piece)

    def hashes(self, piece: Slice) -> Hashes:
        """Return the hashes of a slice's rows; waits for them to be fetched."""
        if (written := self._written.get(piece.run.name)) is not None:
            return written[piece.range.rows(written)]
        return self._access.hashes(piece)

    def hashes_here(self, piece: Slice) -> Hashes | None:
        """Return the hashes of a slice's rows; None if they have not been fetched yet."""
        return self.hashes(piece) if piece.run.name in self._written or self.is_here(piece) else None

    def rows_of(self, piece: Slice) -> int:
        """Return the number of rows in a slice; waits for them to be fetched."""
        return len(self.hashes(piece))

    def size(self, piece: Slice) -> int:
        """Return the bytes of a slice's rows; waits for them to be fetched."""
        return self._access.size(piece)

    def may_have_rows(self, piece: Slice) -> bool:
        """Return whether a slice has rows, or has not been fetched yet."""
        hashes = self.hashes_here(piece)
        return hashes is None or len(hashes) > 0

    def wait_for(self, slices: Collection[Slice], seconds: float | None) -> None:
        """Wait until the slices are fetched, for at most `seconds` (None: no limit)."""
        self._access.wait(slices, seconds)

    def brought(self) -> int:
        """Return the bytes fetched for this site since the last call."""
        return self._access.brought()

    def stored(self, piece: Slice) -> Stored:
        """Return the rows of a slice with the bounds of their times."""
        return Stored(self.read(piece), piece.run.min_time, piece.run.max_time)

    def write(self, port: int, rows: pa.Table, within: HashRange | None = None) -> list[Slice]:
        """Write sorted rows as new runs, and return slices that together cover the range `within` (None: the home of
        the site); nothing if there are no rows. A run is not larger than the budget allows; only runs of one hash
        overlap."""
        if not rows.num_rows:
            return []
        hashes = hashes_of(rows)
        within = _covering(within or self._home, hashes)
        if rows.num_rows == 1 or rows.nbytes <= self.budget.run:
            return [self._write(port, rows, hashes, within)]
        border = _border(hashes)
        below, above = _parts(within, hashes, border)
        return self.write(port, rows[:border], below) + self.write(port, rows[border:], above)

    def _write(self, port: int, rows: pa.Table, hashes: Hashes, within: HashRange) -> Slice:
        name = staged_name(self._epoch, self._part, uuid.uuid4().hex, "arrow")
        run = write_run(self._folder, name, rows, port, self._access.copy, self._sync)
        OPEN_RUNS.wrote(self._folder, run)
        self._written[name] = hashes
        self._bytes_written += run.size
        return Slice(run, within)

    def has_room(self, size: int) -> bool:
        """Return whether `size` bytes may be written to merge runs."""
        return self._merge_bytes is None or self._bytes_written + size <= self._merge_bytes

    def keep_open(self, names: Collection[str]) -> None:
        """Release all runs other than these."""
        self._access.keep_only(names)


def _border(hashes: Hashes) -> int:
    """Return a row to cut sorted rows at, near the middle: one that begins a hash, unless all rows have the same."""
    middle = len(hashes) // 2
    first, end = (int(np.searchsorted(hashes, hashes[middle], side)) for side in ("left", "right"))
    return first or (end if end < len(hashes) else middle)


def _parts(within: HashRange, hashes: Hashes, border: int) -> tuple[HashRange, HashRange]:
    """Return a range cut in two before the row `border`; twice the range of its hash if that has rows on both sides."""
    at = int(hashes[border])
    if at == int(hashes[border - 1]):
        return point(at), point(at)
    return HashRange(within.low, at), HashRange(at, within.high)


def _covering(part: HashRange, hashes: Hashes) -> HashRange:
    """Return the range, extended if rows lie outside of it."""
    return HashRange(min(part.low, int(hashes[0])), max(part.high, int(hashes[-1]) + 1))


def alive(rows: pa.Table, expired_below: int) -> pa.Table:
    """Return the state rows that have not expired; the table itself if all of them are alive."""
    if not rows.num_rows:
        return rows
    needed = times_of(rows) >= expired_below
    return rows if needed.all() else rows.filter(pa.array(needed))


def _columns(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)


def of_port(slices: Iterable[Slice], port: int) -> list[Slice]:
    """Return the slices whose runs belong to a port."""
    return [piece for piece in slices if piece.run.port == port]
