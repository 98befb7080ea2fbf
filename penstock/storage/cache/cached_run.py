"""A run in the cache of a host: the whole file, or the blocks that the slices of this host need."""

from __future__ import annotations

import fcntl
import mmap
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pyarrow as pa

from penstock.errors import CorruptCheckpointError
from penstock.state.hash_ranges import Hashes, HashRange
from penstock.state.runs import RunFile
from penstock.storage.durable import open_plain, read_plain
from penstock.storage.memory import RESIDENT
from penstock.storage.open_runs import BlockedRun, MappedRun
from penstock.storage.run_files import corrupt, write_all

SOME, HAVE = ".some", ".have"  # the present blocks, each at its offset; and one byte per block: is it present
PORTION = 1 << 22  # bytes that are fetched between two calls of `Pause`
Pause = Callable[[float], None]  # called with the seconds that the last portion took; may pause


class PartialRun:
    """A run of which some blocks are present, in a sparse file that this process maps into memory.

    Invariant: a block marked in `_blocked` is in the file, and matched its checksum when it was fetched, or when this
    process first read the marks. Marks are only ever added, by one process at a time, and after the bytes.
    """

    def __init__(self, path: Path, run: RunFile) -> None:
        self._run = run
        self._marks = path.with_name(path.name + HAVE)
        self._file = open_plain(path.with_name(path.name + SOME), os.O_RDWR | os.O_CREAT)
        os.ftruncate(self._file, run.size)
        mapped = mmap.mmap(self._file, run.size, mmap.MAP_SHARED, mmap.PROT_READ)
        RESIDENT.add(mapped)
        self._blocked = BlockedRun(path, run, pa.py_buffer(mapped))
        self._look_again()
        self._changed = os.fstat(self._file).st_mtime_ns  # the version of the file that this process last checked

    def __del__(self) -> None:
        with suppress(OSError, AttributeError):  # opening may have failed
            os.close(self._file)

    @property
    def is_intact(self) -> bool:
        """Return whether all present blocks still match. Other processes may add blocks, and the file may be damaged;
        it must not be read beyond its end."""
        about = os.fstat(self._file)
        if about.st_size == self._run.size and about.st_mtime_ns != self._changed:
            self._changed = about.st_mtime_ns
            return all(self._blocked.matches(block) for block, here in enumerate(self._blocked.have) if here)
        return about.st_size == self._run.size

    def is_here(self, part: HashRange) -> bool:
        """Return whether all blocks for the rows of a range are present."""
        return not self._blocked.wanting(part)

    def hashes(self, part: HashRange) -> Hashes:
        """Return the hashes of a range's rows, which must be present."""
        return self._blocked.hashes[part.rows(self._blocked.hashes)]

    def rows(self, part: HashRange) -> pa.Table:
        """Return the rows of a range, which must be present."""
        found = self._blocked.rows(part)
        RESIDENT.read(found.nbytes)
        return found

    def size(self, part: HashRange) -> int:
        """Return the bytes of a range's rows, which must be present."""
        return self._blocked.size(part)

    def bring(self, part: HashRange, origin: Path, pause: Pause) -> int:
        """Fetch the missing blocks for the rows of a range from `origin`; return the bytes fetched. `pause` is called
        after each portion."""
        brought = 0
        with self._alone(), os.fdopen(open_plain(origin), "rb", buffering=0) as source:
            self._look_again()
            while absent := self._blocked.wanting(part):
                most = max(1, PORTION // self._blocked.blocks.length)
                for at in range(0, len(absent), most):
                    began = time.perf_counter()
                    brought += self._bring(absent[at : at + most], source.fileno(), origin)
                    pause(time.perf_counter() - began)
        return brought

    def _bring(self, blocks: list[int], source: int, origin: Path) -> int:
        """Copy blocks from `source`, check them, and mark them as present; return the bytes copied."""
        brought, known = 0, self._blocked.blocks
        for block in blocks:
            first, end = known.span(block)
            content = memoryview(os.pread(source, end - first, first))
            if not known.matches(block, content):
                raise corrupt(origin, f"the bytes from {first} to {end} do not match their checksum")
            os.lseek(self._file, first, os.SEEK_SET)
            write_all(self._file, content)
            brought += len(content)
        for block in blocks:
            self._blocked.have[block] = True
        with os.fdopen(open_plain(self._marks, os.O_WRONLY | os.O_CREAT), "wb", buffering=0) as marks:
            marks.write(self._blocked.have)
        self._changed = os.fstat(self._file).st_mtime_ns
        return brought

    def _look_again(self) -> None:
        """Add the blocks that other processes of this host have fetched. Each is checked: after a power loss a mark may
        be there without its bytes."""
        with suppress(OSError):
            for block, marked in enumerate(read_plain(self._marks, len(self._blocked.have))):
                if marked and not self._blocked.have[block]:
                    self._blocked.have[block] = self._blocked.matches(block)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Hold the lock of the file: other processes on this host that need the same run wait."""
        fcntl.flock(self._file, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(self._file, fcntl.LOCK_UN)


CachedRun = MappedRun | PartialRun


def cached_run(path: Path, run: RunFile) -> CachedRun:
    """Return the run as the cache has it. A copy of another size is deleted."""
    if os.path.lexists(path):
        try:
            return MappedRun(path, run)
        except CorruptCheckpointError:
            path.unlink(missing_ok=True)
    return PartialRun(path, run)
