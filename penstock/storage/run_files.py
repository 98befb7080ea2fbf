"""Run files: written once, durably, under a name that is never reused.

A file consists of blocks, each with a checksum that is kept in the manifest: the units in which the parts of a run that
are needed are verified, and fetched to a host. Which blocks some rows are in follows from the addresses of the rows in
the buffers of the mapped table.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import xxhash

from penstock.arrow import AnyArray, numbers_in
from penstock.errors import CorruptCheckpointError
from penstock.state.runs import TIME, RunFile
from penstock.storage.durable import Sync, sync_file, writing
from penstock.storage.faults import FaultPoint, reach
from penstock.types import as_array

BLOCK = 1 << 18  # bytes: the shortest length of a block
MOST_BLOCKS = 1024  # blocks of a large file are longer, so that the manifest does not grow with the bytes of state
_DIGITS = 16  # length of a checksum
_WRITTEN_AT_ONCE = 1 << 17  # bytes

Span = tuple[int, int]  # addresses in memory: [first, end)


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


def is_flat(table: pa.Table) -> bool:
    """Return whether the bytes of single rows can be located in the buffers of a table."""
    return all(column.num_chunks == 1 and _kind(column.type) for column in table.columns)


def _kind(kind: pa.DataType) -> str:
    """Return how values of a type are laid out; empty for nested and other types."""
    if pa.types.is_null(kind):
        return "nothing"
    if pa.types.is_primitive(kind) or pa.types.is_decimal(kind) or pa.types.is_fixed_size_binary(kind):
        return "fixed"
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return "offsets of 4"
    if pa.types.is_large_string(kind) or pa.types.is_large_binary(kind):
        return "offsets of 8"
    return ""


def spans_at_once(table: pa.Table, rows: slice) -> Iterator[Span]:
    """Yield the address ranges of some rows that can be computed without reading a value: validity, fixed-width values,
    offsets."""
    if rows.start == rows.stop:
        return
    for column in table.columns:
        yield from _of_column(as_array(column), rows)


def _of_column(array: AnyArray, rows: slice) -> Iterator[Span]:
    """Yield the address ranges of some rows of an array, without values of variable length."""
    buffers = array.buffers()
    if buffers[0] is not None:
        yield _bits(buffers[0], rows, 1)
    match _kind(array.type):
        case "fixed":
            yield _bits(buffers[1], rows, array.type.bit_width)
        case "offsets of 4":
            yield _bits(buffers[1], slice(rows.start, rows.stop + 1), 32)
        case "offsets of 8":
            yield _bits(buffers[1], slice(rows.start, rows.stop + 1), 64)


def _bits(buffer: pa.Buffer | None, rows: slice, width: int) -> Span:
    """Return the address range of some rows in a buffer of `width` bits per row."""
    assert buffer is not None
    first, end = rows.start * width // 8, -(-rows.stop * width // 8)
    return buffer.address + first, buffer.address + min(end, buffer.size)


def offsets_fit(table: pa.Table, rows: slice) -> bool:
    """Return whether the offsets of some rows, which must be present, ascend and stay within the values."""
    for column in table.columns:
        kind = _kind(column.type)
        if kind.startswith("offsets") and rows.start < rows.stop:
            _, offsets, values = as_array(column).buffers()
            places = _places(offsets, kind)[rows.start : rows.stop + 1]
            size = 0 if values is None else values.size
            if (
                len(places) <= rows.stop - rows.start
                or places[0] < 0
                or places[-1] > size
                or (np.diff(places) < 0).any()
            ):
                return False
    return True


def _places(offsets: pa.Buffer | None, kind: str) -> npt.NDArray[np.signedinteger]:
    """Return the offsets as an array."""
    return numbers_in(offsets, np.int32) if kind == "offsets of 4" else numbers_in(offsets, np.int64)


def spans_by_offsets(table: pa.Table, rows: slice) -> Iterator[Span]:
    """Yield the address ranges of values of variable length. Requires that the offsets are present."""
    for column in table.columns:
        kind = _kind(column.type)
        if kind.startswith("offsets") and rows.start < rows.stop:
            _, offsets, values = as_array(column).buffers()
            places = _places(offsets, kind)
            if values is not None:
                yield values.address + int(places[rows.start]), values.address + int(places[rows.stop])


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
