"""Run files: written once, durably, under a name that is never used again, and read through a memory map.

The checksum of a run is kept in the manifest and compared when a process opens the file for the first time.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import pyarrow as pa
import xxhash

from penstock.checkpoint.blocks import block_checksums
from penstock.checkpoint.durable import Sync, sync_file
from penstock.checkpoint.faults import FaultPoint, reach
from penstock.errors import CorruptCheckpointError
from penstock.state.runs import HASH, TIME, Run, Slice

Copy = Callable[[str, memoryview], None]


def write_run(
    folder: Path, name: str, rows: pa.Table, port: int = 0, copy: Copy | None = None, sync: Sync = sync_file
) -> Run:
    """Write a sorted, non-empty table of state rows of a port as a run. `copy` is given the content, too; `sync` makes
    the file durable, or begins to."""
    data = _serialise(rows)
    _write(folder / name, memoryview(data))
    sync(folder / name)
    reach(FaultPoint.RUN_WRITTEN)
    if copy is not None:
        copy(name, memoryview(data))
    times = rows.column(TIME).to_numpy()
    middle = int(np.partition(times, len(times) // 2)[len(times) // 2])
    least, most, checksum = int(times.min()), int(times.max()), xxhash.xxh3_64_hexdigest(data)
    return Run(name, port, len(times), data.size, checksum, least, middle, most, block_checksums(memoryview(data)))


def _serialise(rows: pa.Table) -> pa.Buffer:
    out = pa.BufferOutputStream()
    with pa.ipc.new_file(out, rows.schema) as writer:
        writer.write_table(rows.combine_chunks())
    return out.getvalue()


def _write(path: Path, data: memoryview) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb", buffering=0) as file:
        half = len(data) // 2
        write_all(file.fileno(), data[:half])
        reach(FaultPoint.RUN_TORN)
        write_all(file.fileno(), data[half:])


def write_all(descriptor: int, data: memoryview) -> None:
    while data:
        data = data[os.write(descriptor, data) :]


class OpenRuns:
    """The runs this process has open, by folder and name. Names are never reused, so an entry is never stale.

    Invariant: every table in it matched its checksum when it was opened.
    """

    def __init__(self) -> None:
        self._tables: dict[Path, dict[str, pa.Table]] = {}

    def read(self, folder: Path, piece: Slice) -> pa.Table:
        """The rows of a slice, without a copy."""
        opened, name = self._tables.setdefault(folder, {}), piece.run.name
        table = opened.get(name)
        if table is None:
            table = opened[name] = open_run(folder / name, piece.run)
        return table[piece.range.rows(table.column(HASH).to_numpy())]

    def keep_only(self, folder: Path, names: Iterable[str]) -> None:
        """Close the runs of `folder` that are no longer part of its state."""
        opened = self._tables.get(folder, {})
        for name in set(opened).difference(names):  # a copy: other sites of this process open runs at the same time
            opened.pop(name, None)
        if not opened:
            self._tables.pop(folder, None)


def open_run(path: Path, run: Run) -> pa.Table:
    """The rows of a run, mapped into memory; a file that is not the run is an error."""
    try:
        with pa.memory_map(os.fspath(path)) as source:
            _verify(path, run, source.read_buffer())
            source.seek(0)
            return pa.ipc.open_file(source).read_all()
    except (OSError, pa.ArrowInvalid) as error:
        raise corrupt(path, str(error)) from error


def _verify(path: Path, run: Run, content: pa.Buffer) -> None:
    if content.size != run.size:
        raise corrupt(path, f"it has {content.size} bytes, but the manifest says {run.size}")
    if (found := xxhash.xxh3_64_hexdigest(content)) != run.checksum:
        raise corrupt(path, f"its checksum is {found}, but the manifest says {run.checksum}")


def corrupt(path: Path, detail: str) -> CorruptCheckpointError:
    return CorruptCheckpointError(
        f"the state file {path.name} of the checkpoint cannot be used",
        detail=f"{path}: {detail}",
        hint="restore the file from a backup, or start again with a new checkpoint",
    )
