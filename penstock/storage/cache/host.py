"""The run cache of a host: copies of runs, or of the blocks that its slices need, in a local folder.

All processes of a host may share it. Nothing is lost with it: missing blocks are fetched from the checkpoint, and
blocks that do not match the manifest are fetched again, in a background thread.
"""

from __future__ import annotations

import fcntl
import os
import threading
import time
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Protocol

import pyarrow as pa
import xxhash

from penstock.errors import CorruptCheckpointError, PenstockError, StorageError
from penstock.state.hash_ranges import Hashes
from penstock.state.runs import Slice
from penstock.storage.cache.cached_run import HAVE, SOME, CachedRun, PartialRun, Pause, cached_run
from penstock.storage.durable import epoch_of_name, make_private_folder, open_plain
from penstock.storage.open_runs import MappedRun
from penstock.storage.run_files import write_all

_NEW = ".new"


class HostCache:
    """This process's view of the cache, for the runs of one checkpoint, which are in the folder `origin`.

    Invariant: a file under the name of a run was complete when it got that name, and is compared with the manifest when
    a process opens it. `_needed` has the runs that each site of this process needed last. They are not evicted, so the
    cache exceeds `most_bytes` if sites need more.
    """

    def __init__(self, root: Path, origin: Path, most_bytes: int) -> None:
        self._root, self._origin, self._most_bytes = root, origin, most_bytes
        self._folder = root / xxhash.xxh3_64_hexdigest(os.fsencode(origin))
        with suppress(OSError, StorageError):  # then runs are read from the checkpoint
            make_private_folder(self._folder)
        _sweep(self._folder)
        self._runs: dict[str, CachedRun] = {}
        self._opening = threading.Lock()  # reader and fetching thread share one object per run
        self._needed: dict[str, tuple[int, frozenset[str]]] = {}

    # -- reading -------------------------------------------------------------------------------------------------

    def is_here(self, piece: Slice) -> bool:
        """Return whether the rows of a slice can be read at once."""
        return self._present(piece) is not None

    def read(self, piece: Slice) -> pa.Table | None:
        """Return the rows of a slice without copying; None if some are not present. A table in use stays valid even if
        its run is evicted."""
        return None if (run := self._present(piece)) is None else run.rows(piece.range)

    def hashes(self, piece: Slice) -> Hashes | None:
        """Return the hashes of a slice's rows; None if some rows are not present."""
        return None if (run := self._present(piece)) is None else run.hashes(piece.range)

    def size(self, piece: Slice) -> int | None:
        """Return the bytes of a slice's rows; None if some rows are not present."""
        return None if (run := self._present(piece)) is None else run.size(piece.range)

    def _present(self, piece: Slice) -> CachedRun | None:
        """Return the open run of a slice if its rows are present. A damaged copy is deleted, to be fetched again."""
        run = self._cached(piece)
        try:
            return run if run.is_here(piece.range) else None
        except CorruptCheckpointError:
            if isinstance(run, PartialRun) or run.path.parent != self._folder:
                raise
            run.path.unlink(missing_ok=True)
            self._runs.pop(piece.run.name, None)
            return None

    def _cached(self, piece: Slice) -> CachedRun:
        """Return the open run of a slice; opens it again if the file was changed."""
        name = piece.run.name
        with self._opening:
            found = self._runs.get(name)
            if found is None or not found.is_intact:
                found = self._runs[name] = self._opened(piece)
        return found

    def _opened(self, piece: Slice) -> CachedRun:
        """Open the run in the cache or, if the local disk fails, in the checkpoint."""
        try:
            return cached_run(self._folder / piece.run.name, piece.run)
        except OSError:
            return self._in_place(piece)

    def _in_place(self, piece: Slice) -> CachedRun:
        """Open the run in the checkpoint."""
        return MappedRun(self._origin / piece.run.name, piece.run)

    # -- filling -------------------------------------------------------------------------------------------------

    def fetch(self, piece: Slice, pause: Pause) -> int:
        """Fetch the missing blocks of a slice; return the bytes fetched."""
        self._make_room(piece.run.name)
        match self._cached(piece):
            case PartialRun() as run:
                try:
                    return run.bring(piece.range, self._origin / piece.run.name, pause)
                except OSError:
                    self._runs[piece.run.name] = self._in_place(piece)
        return 0

    def put(self, name: str, content: memoryview) -> None:
        """Keep a copy of a run that this host has just written. Errors are ignored, since it is only a copy."""
        fresh = self._folder / f"{name}.{uuid.uuid4().hex}{_NEW}"
        self._make_room(name)
        try:
            with fresh.open("xb", buffering=0) as file:
                fcntl.flock(file, fcntl.LOCK_EX)  # until it has its name, so that no new process sweeps it away
                write_all(file.fileno(), content)
                fresh.rename(self._folder / name)
        except OSError:
            with suppress(OSError):
                fresh.unlink(missing_ok=True)

    # -- emptying ------------------------------------------------------------------------------------------------

    def needs(self, site: str, epoch: int, slices: Iterable[Slice]) -> None:
        """Record the slices that a site reads in an epoch. Records of sites that moved to other hosts expire after one
        epoch."""
        names = frozenset(piece.run.name for piece in slices)
        lately = {name: need for name, need in self._needed.items() if need[0] >= epoch - 1}
        self._needed = {**lately, site: (epoch, names)}  # never changed in place: the fetching thread reads it, too
        for name in names:
            for file in self._files_of(name):
                with suppress(OSError):  # set the time of last use, keep the time of last change
                    os.utime(file, ns=(time.time_ns(), os.stat(file).st_mtime_ns))

    def keep_only(self, names: Collection[str], epoch: int) -> None:
        """Delete runs of earlier epochs that no manifest names. Runs of this epoch may still be in progress in other
        processes."""
        for name in list(self._runs):
            if name not in names:
                self._runs.pop(name, None)
        for file in _files(self._folder):
            name, made = _run_of(file.name), epoch_of_name(file.name)
            if name not in names and (made is None or made < epoch):
                _remove(file.path)

    def _make_room(self, coming: str) -> None:
        """Evict the least recently used files until the cache fits, but not the run `coming` nor runs that sites
        need."""
        files = sorted(file for folder in _folders(self._root) for file in _used(folder))
        taken = sum(size for _, size, _ in files)
        needed = {coming, *(name for _, names in self._needed.values() for name in names)}
        for _, size, path in files:
            if taken <= self._most_bytes:
                return
            if path.parent != self._folder or _run_of(path.name) not in needed:
                self._runs.pop(_run_of(path.name), None)
                _remove(path)
                taken -= size

    def _files_of(self, name: str) -> list[Path]:
        return [self._folder / (name + ending) for ending in ("", SOME, HAVE)]


def _folders(root: Path) -> list[str]:
    return [entry.path for entry in _files(root) if entry.is_dir(follow_symlinks=False)]


def _files(folder: str | Path) -> list[os.DirEntry[str]]:
    """Return the entries of a folder; empty if the folder is gone."""
    with suppress(OSError), os.scandir(folder) as entries:
        return list(entries)
    return []


def _used(folder: str) -> Iterator[tuple[float, int, Path]]:
    """Yield last use, bytes on disk and path of each file of a folder. Other processes may remove files meanwhile."""
    for entry in _files(folder):
        with suppress(OSError):
            found = entry.stat()
            yield found.st_atime, found.st_blocks * 512, Path(entry.path)


def _run_of(file: str) -> str:
    """Return the name of the run that a file of the cache belongs to; empty for an unfinished copy."""
    if file.endswith(_NEW):
        return ""  # being written, or left unfinished
    return file.removesuffix(SOME).removesuffix(HAVE)


def _sweep(folder: Path) -> None:
    """Remove unfinished copies of processes that were killed; a living process holds a lock on its copy."""
    for entry in _files(folder):
        if entry.name.endswith(_NEW):
            with suppress(OSError):
                descriptor = open_plain(Path(entry.path))
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    _remove(entry.path)
                finally:
                    os.close(descriptor)


def _remove(path: str | Path) -> None:
    with suppress(OSError):
        os.unlink(path)


Bring = Callable[[Slice, Pause], int]  # returns the bytes fetched


class Fetcher(Protocol):
    """Fetches slices to this host."""

    def begin(self, slices: Iterable[Slice]) -> None:
        """Queue slices, in this order, after those queued before. Does not wait."""
        ...

    def wait(self, slices: Collection[Slice], seconds: float | None) -> None:
        """Wait until the slices are present, at most `seconds` (None: no limit). Raises the error of a slice that could
        not be fetched."""
        ...

    def brought(self, slices: Iterable[Slice]) -> int:
        """Return the bytes fetched for these slices since the last call for them."""
        ...

    def keep_only(self, names: Collection[str]) -> None:
        """Drop slices of other runs from the queue: they are no longer needed."""
        ...


class Fetching:
    """A fetcher with a thread that lives only while there are slices to fetch.

    The thread takes at most half of a core, so that sites can work, but runs at full speed while a caller waits.
    Invariant: slices in `_queue` are being fetched; fields are changed only while the lock is held.
    """

    def __init__(self, bring: Bring) -> None:
        self._bring = bring
        self._changed = threading.Condition()
        self._queue: dict[Slice, None] = {}
        self._thread: threading.Thread | None = None
        self._waiting = 0
        self._errors: dict[Slice, PenstockError] = {}
        self._bytes: dict[Slice, int] = {}

    def begin(self, slices: Iterable[Slice]) -> None:
        with self._changed:
            self._queue.update(dict.fromkeys(slices))
            if self._queue and self._thread is None:
                self._thread = threading.Thread(target=self._run, name="penstock-fetch", daemon=True)
                self._thread.start()

    def wait(self, slices: Collection[Slice], seconds: float | None) -> None:
        with self._changed:
            self._waiting += 1
            self._changed.notify_all()
            try:
                self._changed.wait_for(lambda: self._queue.keys().isdisjoint(slices), seconds)
            finally:
                self._waiting -= 1
            for error in [self._errors.pop(piece) for piece in slices if piece in self._errors]:
                raise error

    def brought(self, slices: Iterable[Slice]) -> int:
        with self._changed:
            return sum(self._bytes.pop(piece, 0) for piece in slices)

    def keep_only(self, names: Collection[str]) -> None:
        with self._changed:
            for known in (self._queue, self._errors, self._bytes):
                for piece in [piece for piece in known if piece.run.name not in names]:
                    del known[piece]
            self._changed.notify_all()

    def _run(self) -> None:
        """Fetch slices until the queue is empty. Every error is recorded for the slice, because a caller may wait for
        it."""
        while (piece := self._next()) is not None:
            try:
                self._done(piece, self._bring(piece, self._pause))
            except PenstockError as error:
                self._done(piece, 0, error)
            except BaseException as error:  # of any kind: a caller may wait for this slice
                self._done(piece, 0, _not_fetched(piece, error))

    def _next(self) -> Slice | None:
        """Return the next slice; None ends the thread."""
        with self._changed:
            if not self._queue:
                self._thread = None
            return next(iter(self._queue), None)

    def _done(self, piece: Slice, size: int, error: PenstockError | None = None) -> None:
        with self._changed:
            self._queue.pop(piece, None)
            if error is not None:
                self._errors[piece] = error
            elif size:
                self._bytes[piece] = self._bytes.get(piece, 0) + size
            self._changed.notify_all()

    def _pause(self, took: float) -> None:
        """Pause for as long as the last portion took, unless a caller waits."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting, took)


def _not_fetched(piece: Slice, error: BaseException) -> PenstockError:
    return PenstockError(
        f"the state file {piece.run.name} could not be fetched",
        detail=f"{type(error).__name__}: {error}",
        hint="the checkpoint is intact: fix the cause and restart the query",
    )
