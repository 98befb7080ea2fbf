"""Run files: written once, durably, under a name that is never reused.

A file consists of blocks, each with a checksum that is kept in the manifest: the units in which the parts of a run that
are needed are verified, and fetched to a host.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import xxhash

from penstock.errors import CorruptCheckpointError
from penstock.state.runs import TIME, RunFile
from penstock.storage.disk_errors import writing
from penstock.storage.durable import Sync, sync_file
from penstock.storage.faults import FaultPoint, reach

BLOCK = 1 << 18  # bytes: the shortest length of a block
MOST_BLOCKS = 1024  # blocks of a large file are longer, so that the manifest does not grow with the bytes of state
_DIGITS = 16  # length of a checksum
_WRITTEN_AT_ONCE = 1 << 17  # bytes


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
    """Write all bytes to a descriptor, in small steps: the system keeps what is written at once in one large piece of
    its page cache, and maps all of it into memory when a byte of it is read."""
    while data:
        data = data[os.write(descriptor, data[:_WRITTEN_AT_ONCE]) :]


def corrupt(path: Path, detail: str) -> CorruptCheckpointError:
    return CorruptCheckpointError(
        f"the state file {path.name} of the checkpoint cannot be used",
        detail=f"{path}: {detail}",
        hint="restore the file from a backup, or start again with a new checkpoint",
    )
