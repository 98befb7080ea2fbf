"""Runs that a process has open: mapped into memory, and verified block by block.

A map shows whatever is written to its file, and reading a map beyond the end of its file kills the process. So a run is
opened again, and verified again, if its file has changed.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable, Iterable
from pathlib import Path

import pyarrow as pa

from penstock.state.hash_ranges import Hashes, HashRange
from penstock.state.runs import RunFile, Slice
from penstock.storage.blocked_run import BlockedRun
from penstock.storage.durable import open_plain, reason
from penstock.storage.memory import RESIDENT
from penstock.storage.run_files import corrupt

_MOST_WRITTEN = 10_000

Signature = tuple[int, ...]  # of a file: changes when the file is replaced, written to or truncated


class MappedRun:
    """A complete run file, mapped into memory. Each block is verified before it is first read. Raises
    CorruptCheckpointError if the file is not the run."""

    def __init__(self, path: Path, run: RunFile, trusted: bool = False) -> None:
        self.path = path
        try:
            self._map, self._signature = _mapped(path, run)
        except OSError as error:
            raise corrupt(path, reason(error)) from error
        RESIDENT.add(self._map)
        self._blocked = BlockedRun(path, run, pa.py_buffer(self._map), trusted)

    @property
    def is_intact(self) -> bool:
        """Return whether the file is unchanged since it was opened. A removed file counts as unchanged: a map outlives
        the name of its file."""
        return signature_of(self.path) in (self._signature, None)

    def is_here(self, part: HashRange) -> bool:
        """Verify the rows of a range and return True: the file is complete."""
        self._verify(lambda: self._blocked.wanting(part))
        return True

    def hashes(self, part: HashRange) -> Hashes:
        """Return the hashes of a range's rows."""
        self._verify(self._blocked.wanting_hashes)
        found = self._blocked.hashes[part.rows(self._blocked.hashes)]
        RESIDENT.read(found.nbytes)
        return found

    def rows(self, part: HashRange) -> pa.Table:
        """Return the rows of a range without copying."""
        self.is_here(part)
        found = self._blocked.rows(part)
        RESIDENT.read(found.nbytes)
        return found

    def size(self, part: HashRange) -> int:
        """Return the bytes of a range's rows."""
        self._verify(lambda: self._blocked.wanting_bounds(part))
        return self._blocked.size(part)

    def _verify(self, wanting: Callable[[], list[int]]) -> None:
        """Compare the blocks that are wanting with their checksums, until none is."""
        while blocks := wanting():
            for block in blocks:
                first, end = self._blocked.blocks.span(block)
                RESIDENT.read(end - first)
                if not self._blocked.matches(block):
                    raise corrupt(self.path, f"the bytes from {first} to {end} do not match their checksum")
                self._blocked.have[block] = True


class OpenRuns:
    """The runs that this process has open, by folder and name. Names are never reused, so an entry is never stale.

    The content of a run that this process wrote is not validated if its checksums match.
    """

    def __init__(self) -> None:
        self._runs: dict[Path, dict[str, MappedRun]] = {}
        self._written: dict[Path, str] = {}  # the checksums of runs this process wrote and has not opened yet

    def wrote(self, folder: Path, run: RunFile) -> None:
        """Record that this process wrote a run."""
        self._written[folder / run.name] = run.checksum
        if len(self._written) > _MOST_WRITTEN:
            self._written.pop(next(iter(self._written)), None)

    def open(self, folder: Path, run: RunFile) -> MappedRun:
        """Return the open run; opens it if needed, or again if its file has changed."""
        opened = self._runs.setdefault(folder, {})
        known = opened.get(run.name)
        if known is None or not known.is_intact:
            own = self._written.pop(folder / run.name, None) == run.checksum
            known = opened[run.name] = MappedRun(folder / run.name, run, trusted=own)
        return known

    def read(self, folder: Path, piece: Slice) -> pa.Table:
        """Return the rows of a slice without copying. Raises CorruptCheckpointError if the file is not the run."""
        return self.open(folder, piece.run).rows(piece.range)

    def keep_only(self, folder: Path, names: Iterable[str]) -> None:
        """Close the runs of `folder` that are no longer part of its state."""
        opened = self._runs.get(folder, {})
        for name in set(opened).difference(names):  # a copy: other sites of this process open runs at the same time
            opened.pop(name, None)
        if not opened:
            self._runs.pop(folder, None)


def signature_of(path: Path) -> Signature | None:
    """Return the signature of a file now; None if it does not exist."""
    try:
        return _signature(os.lstat(path))
    except OSError:
        return None


def _signature(about: os.stat_result) -> Signature:
    return about.st_dev, about.st_ino, about.st_size, about.st_mtime_ns


def _mapped(path: Path, run: RunFile) -> tuple[mmap.mmap, Signature]:
    """Map the file and return its map and signature; its size must match the manifest."""
    descriptor = open_plain(path)
    try:
        about = os.fstat(descriptor)
        if about.st_size != run.size:
            raise corrupt(path, f"it has {about.st_size} bytes, but the manifest says {run.size}")
        return mmap.mmap(descriptor, run.size, mmap.MAP_SHARED, mmap.PROT_READ), _signature(about)
    finally:
        os.close(descriptor)
