"""Run files: written once, durably, under a name that is never reused, and read through a memory map.

The checksum of a run is kept in the manifest. It is compared when a process opens the file for the first time, and
again if the file has changed since: a map shows whatever is written to its file, and reading a map beyond the end of
its file kills the process.

A file consists of blocks, each with a checksum: the units in which a host fetches the parts of a run that it needs.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import xxhash

from penstock.errors import CorruptCheckpointError
from penstock.state.runs import HASH, TIME, RunFile, Slice
from penstock.storage.disk_errors import writing
from penstock.storage.durable import Sync, open_plain, reason, sync_file
from penstock.storage.faults import FaultPoint, reach
from penstock.storage.run_content import wrong_content

BLOCK = 1 << 18  # bytes: the shortest length of a block
MOST_BLOCKS = 1024  # blocks of a large file are longer, so that the manifest does not grow with the bytes of state
_DIGITS = 16  # length of a checksum


_MOST_WRITTEN = 10_000


def block_checksums(data: memoryview) -> str:
    """Return the checksums of all blocks, concatenated; empty for a file of one block, where the checksum of the file
    is enough."""
    length = block_length(len(data))
    if len(data) <= length:
        return ""
    return "".join(xxhash.xxh3_64_hexdigest(data[at : at + length]) for at in range(0, len(data), length))


def block_length(size: int) -> int:
    """Return the length of the blocks of a file of `size` bytes."""
    length = BLOCK
    while size > length * MOST_BLOCKS:
        length *= 2
    return length


@dataclass(frozen=True)
class Blocks:
    """The file of a run as blocks of `length` bytes, the last of which may be shorter."""

    size: int
    length: int
    checksums: str

    @classmethod
    def of(cls, run: RunFile) -> Blocks:
        """Return the blocks of a run; a run without block checksums is one block."""
        return (
            cls(run.size, block_length(run.size), run.blocks) if run.blocks else cls(run.size, run.size, run.checksum)
        )

    def __len__(self) -> int:
        return -(-self.size // self.length)

    def span(self, block: int) -> tuple[int, int]:
        """Return the byte range [first, end) of a block."""
        return block * self.length, min(self.size, (block + 1) * self.length)

    def matches(self, block: int, content: bytes | memoryview) -> bool:
        """Return whether `content` has the length and the checksum of a block."""
        first, end = self.span(block)
        wanted = self.checksums[block * _DIGITS : (block + 1) * _DIGITS]
        return len(content) == end - first and xxhash.xxh3_64_hexdigest(content) == wanted

    def covering(self, spans: Iterable[tuple[int, int]]) -> list[int]:
        """Return the blocks that overlap the byte ranges, sorted."""
        found: set[int] = set()
        for first, end in spans:
            if first < end:
                found.update(range(first // self.length, (end - 1) // self.length + 1))
        return sorted(found)


Copy = Callable[[str, memoryview], None]


def write_run(
    folder: Path, name: str, rows: pa.Table, port: int = 0, copy: Copy | None = None, sync: Sync = sync_file
) -> RunFile:
    """Write a sorted, non-empty table of state rows of a port as a run, and return its metadata. `copy` also receives
    the content; `sync` makes the file durable, or starts to."""
    data = _serialise(rows)
    _write(folder / name, memoryview(data))
    sync(folder / name)
    reach(FaultPoint.RUN_WRITTEN)
    if copy is not None:
        copy(name, memoryview(data))
    times = rows.column(TIME).to_numpy()
    middle = int(np.partition(times, len(times) // 2)[len(times) // 2])
    least, most, checksum = int(times.min()), int(times.max()), xxhash.xxh3_64_hexdigest(data)
    return RunFile(name, port, len(times), data.size, checksum, least, middle, most, block_checksums(memoryview(data)))


def _serialise(rows: pa.Table) -> pa.Buffer:
    """Return the rows as an Arrow IPC file."""
    out = pa.BufferOutputStream()
    with pa.ipc.new_file(out, rows.schema) as writer:
        writer.write_table(rows.combine_chunks())
    return out.getvalue()


def _write(path: Path, data: memoryview) -> None:
    """Write the content to a new file, in two halves with a fault point between them."""
    with writing(path, len(data)):
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb", buffering=0) as file:
            half = len(data) // 2
            write_all(file.fileno(), data[:half])
            reach(FaultPoint.RUN_TORN)
            write_all(file.fileno(), data[half:])


def write_all(descriptor: int, data: memoryview) -> None:
    """Write all bytes to a descriptor."""
    while data:
        data = data[os.write(descriptor, data) :]


Signature = tuple[int, ...]  # of a file: changes when the file is replaced, written to or truncated


@dataclass(frozen=True)
class OpenRun:
    """The rows of a run, and the signature of its file when it was compared with the manifest."""

    path: Path
    table: pa.Table
    signature: Signature

    @property
    def is_intact(self) -> bool:
        """Return whether the file is unchanged since. A removed file counts as unchanged: a map outlives the name of
        its file."""
        return signature_of(self.path) in (self.signature, None)


class OpenRuns:
    """The runs that this process has open, by folder and name. Names are never reused, so an entry is never stale.

    Invariant: every table matched its checksum when it was opened. The content of a run that this process wrote is not
    checked again if the checksum matches.
    """

    def __init__(self) -> None:
        self._runs: dict[Path, dict[str, OpenRun]] = {}
        self._written: dict[Path, str] = {}  # the checksums of runs this process wrote and has not opened yet

    def wrote(self, folder: Path, run: RunFile) -> None:
        """Record that this process wrote a run."""
        self._written[folder / run.name] = run.checksum
        if len(self._written) > _MOST_WRITTEN:
            self._written.pop(next(iter(self._written)), None)

    def read(self, folder: Path, piece: Slice) -> pa.Table:
        """Return the rows of a slice without copying. Opens the run if needed; raises CorruptCheckpointError if the
        file is not the run."""
        opened, run = self._runs.setdefault(folder, {}), piece.run
        known = opened.get(run.name)
        if known is None or not known.is_intact:
            own = self._written.pop(folder / run.name, None) == run.checksum
            known = opened[run.name] = open_run(folder / run.name, run, own)
        return known.table[piece.range.rows(known.table.column(HASH).to_numpy())]

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


def open_run(path: Path, run: RunFile, own: bool = False) -> OpenRun:
    """Map the rows of a run into memory. Raises CorruptCheckpointError if the file is not the run. `own`: this process
    wrote it, so its content is not checked."""
    try:
        content, signature = _mapped(path, run)
        _verify(path, run, content)
        table = pa.ipc.open_file(content).read_all()
    except (OSError, pa.ArrowInvalid) as error:
        raise corrupt(path, reason(error) if isinstance(error, OSError) else str(error)) from error
    if not own and (why := wrong_content(run, table)) is not None:
        raise corrupt(path, why)
    return OpenRun(path, table, signature)


def _mapped(path: Path, run: RunFile) -> tuple[pa.Buffer, Signature]:
    """Map the file and return its content and signature; its size must match the manifest."""
    descriptor = open_plain(path)
    try:
        about = os.fstat(descriptor)
        if about.st_size != run.size:
            raise corrupt(path, f"it has {about.st_size} bytes, but the manifest says {run.size}")
        return pa.py_buffer(mmap.mmap(descriptor, run.size, mmap.MAP_SHARED, mmap.PROT_READ)), _signature(about)
    finally:
        os.close(descriptor)


def _verify(path: Path, run: RunFile, content: pa.Buffer) -> None:
    if (found := xxhash.xxh3_64_hexdigest(content)) != run.checksum:
        raise corrupt(path, f"its checksum is {found}, but the manifest says {run.checksum}")


def corrupt(path: Path, detail: str) -> CorruptCheckpointError:
    return CorruptCheckpointError(
        f"the state file {path.name} of the checkpoint cannot be used",
        detail=f"{path}: {detail}",
        hint="restore the file from a backup, or start again with a new checkpoint",
    )
