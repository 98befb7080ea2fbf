"""The protocol of sinks, the writer of staged files, and the record of what is published.

A task writes rows into one staged file; the manifest names it; after the commit the driver publishes it. Publishing is
repeated after a crash, so it must be idempotent, or the sink must document that it is at-least-once.

Staged files whose size and checksum are computed while writing and compared before publishing.

The checksum covers the bytes passed to the file system, not those read back, so any later damage is detected.

The record of an output: the query that publishes there, and the newest epoch that it has published. It is one small
file in the staging folder. Its content, the id of the query, never changes; its name contains the epoch. So advancing
to the next epoch is a rename, which is atomic and writes no data. The rename becomes durable with the next staged
files, in the commit of the following epoch. After a power failure before that, the record is one epoch behind, and the
published files themselves show which of them are published.

Sinks that pass rows to the driver's process: in memory, to a Python callback, or to the terminal.

Rows are staged in the checkpoint and read back after the commit. A crash after the delivery and before its record
repeats the last epoch, so these sinks are at-least-once.
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import xxhash

from penstock.arrow import Compression, ResultFormat
from penstock.errors import PenstockError, SinkError
from penstock.plan.logical import Connector
from penstock.state.model import Staged
from penstock.storage.durable import (
    Sync,
    create_exclusive,
    make_private_folder,
    open_plain,
    read_plain,
    reason,
    sync_file,
    writing,
)
from penstock.storage.faults import FaultPoint, reach
from penstock.storage.run_files import write_all
from penstock.user_code import describe_error, name_of

_PIECE = 1 << 20  # bytes read at a time: large enough for full speed
_SAMPLE = 2048
_NAME = re.compile(r"published-(\d{12})")
_ID = re.compile(r"[0-9A-Za-z-]{1,64}")


class HashedFile(io.RawIOBase):
    """A new file that counts and hashes the bytes written to it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        self._hash, self.size = xxhash.xxh3_64(), 0

    @property
    def checksum(self) -> str:
        return self._hash.hexdigest()

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        """Append the bytes; return their number."""
        view = memoryview(data)
        self._hash.update(view)
        with writing(self._path, view.nbytes):
            write_all(self._descriptor, view)
        self.size += view.nbytes
        return view.nbytes

    def tell(self) -> int:
        return self.size

    def close(self) -> None:
        if not self.closed:
            os.close(self._descriptor)
        super().close()


def what_is_wrong(path: Path, file: Staged) -> str:
    """Compare a staged file with its entry in the manifest; return the difference, or "" if it is intact."""
    try:
        size, checksum = _content(path, file.size)
    except OSError as error:
        return reason(error)
    if size != file.size:
        return f"it has {size:,} bytes, but the manifest says {file.size:,}"
    if checksum != file.checksum:
        return f"its checksum is {checksum}, but the manifest says {file.checksum}"
    return ""


def _content(path: Path, expected: int) -> tuple[int, str]:
    """Return the size and the checksum of a file; it is not read if the size differs from `expected`."""
    with os.fdopen(open_plain(path), "rb", buffering=0) as opened:
        size = os.fstat(opened.fileno()).st_size
        found, piece = xxhash.xxh3_64(), memoryview(bytearray(min(_PIECE, max(size, 1))))
        while size == expected and (read := opened.readinto(piece)):
            found.update(piece[:read])
        return size, found.hexdigest()


class SinkConnector(Connector, Protocol):
    """A connector that results are written to."""

    @property
    def extension(self) -> ResultFormat:
        """Return the format of staged files: "parquet" or "arrow"."""
        ...

    @property
    def compression(self) -> Compression:
        """Return the compression of Parquet files, or "none"; Arrow files are never compressed."""
        ...

    def staging(self, checkpoint: Path, output: str) -> Path:
        """Return the folder in which tasks write, on the file system that the sink publishes to."""
        ...

    def check(self, checkpoint: Path, output: str, query_id: str | None) -> None:
        """Refuse a place that holds results of other queries; change nothing. `query_id` is None for a new query."""
        ...

    def prepare(self, checkpoint: Path, output: str) -> None:
        """Create the folders, before the first epoch of a run."""
        ...

    def newest(self, checkpoint: Path, output: str) -> int:
        """Return the newest epoch with visible rows; 0 if there is none or the sink cannot tell."""
        ...

    def is_published(self, checkpoint: Path, output: str, file: Staged) -> bool:
        """Return whether a file that is no longer staged has been published, as far as the sink can tell."""
        ...

    def publish(self, checkpoint: Path, output: str, epoch: int, staged: Sequence[Staged]) -> None:
        """Make staged files visible to readers. The files are intact."""
        ...


class RowWriter:
    """Writes one staged file. The file is created with the first rows; without rows there is no file."""

    def __init__(self, path: Path, schema: pa.Schema, compression: Compression = "lz4", sync: Sync = sync_file) -> None:
        self._path, self._schema, self._compression, self._sync = path, schema, compression, sync
        self._file: HashedFile | None = None
        self._writer: pq.ParquetWriter | pa.RecordBatchFileWriter | None = None
        self.rows = 0

    def write(self, rows: pa.Table) -> None:
        """Append rows to the file."""
        if rows.num_rows == 0:
            return
        with writing(self._path):
            if self._writer is None:
                self._open(rows)
            self._writer.write_table(rows)  # type: ignore[union-attr]
        self.rows += rows.num_rows

    def _open(self, first: pa.Table) -> None:
        make_private_folder(self._path.parent)
        self._file = HashedFile(self._path)
        if self._path.suffix == ".parquet":
            self._writer = pq.ParquetWriter(
                pa.PythonFile(self._file, "w"),
                self._schema,
                compression=self._compression,
                use_dictionary=_repeating(first),  # type: ignore[arg-type]  # the stubs do not know names
                write_statistics=False,
            )
        else:
            self._writer = pa.ipc.new_file(pa.PythonFile(self._file, "w"), self._schema)

    def finish(self, output: str) -> Staged | None:
        """Close the file, pass it to `sync`, and describe it; None if no rows were written."""
        if self._writer is None or self._file is None:
            return None
        with writing(self._path):
            self._writer.close()
            self._file.close()
        self._sync(self._path)
        return Staged(output, self._path.name, self.rows, self._file.size, self._file.checksum)


def _repeating(rows: pa.Table) -> list[str]:
    """Return the string and timestamp columns whose values repeat in a sample; only for these does a dictionary pay
    off."""
    sample = rows.take(np.linspace(0, rows.num_rows - 1, min(rows.num_rows, _SAMPLE), dtype=np.int64))
    kinds = [f.name for f in rows.schema if pa.types.is_string(f.type) or pa.types.is_timestamp(f.type)]
    return [name for name in kinds if 2 * pc.count_distinct(sample.column(name)).as_py() <= sample.num_rows]


@dataclass(frozen=True)
class Record:
    """The query and epoch of a record. Invariant: all rows of the query up to `epoch` are published, here or in an
    earlier place."""

    query_id: str
    epoch: int


def read_record(staging: Path) -> Record | None:
    """Return the record of a staging folder; None if there is none."""
    epochs = _epochs(staging)
    if not epochs:
        return None
    path = _path(staging, max(epochs))
    try:
        text = read_plain(path, 64).decode("ascii", errors="replace")
    except OSError as error:
        raise _damaged(path, reason(error)) from error
    if not _ID.fullmatch(text):
        raise _damaged(path, "it should hold the id of a query, and nothing else")
    return Record(text, max(epochs))


def claim(staging: Path, record: Record) -> bool:
    """Write the first record of a folder, atomically; return False if another process wrote one first."""
    return create_exclusive(
        _path(staging, record.epoch), record.query_id.encode(), FaultPoint.CLAIM_STAGED, FaultPoint.CLAIM_LINKED
    )


def advance(staging: Path, before: int, epoch: int) -> None:
    """Record that an epoch is published."""
    if before != epoch:
        os.rename(_path(staging, before), _path(staging, epoch))
    reach(FaultPoint.RECORDED)


def sweep(staging: Path) -> None:
    """Remove the leftovers of interrupted claims."""
    for leftover in staging.glob(".published-*"):
        leftover.unlink(missing_ok=True)


def _epochs(staging: Path) -> list[int]:
    names = os.listdir(staging) if staging.is_dir() else []
    return [int(match[1]) for name in names if (match := _NAME.fullmatch(name))]


def _path(staging: Path, epoch: int) -> Path:
    return staging / f"published-{epoch:012d}"


def _damaged(path: Path, detail: str) -> SinkError:
    return SinkError(
        f"the record {path.name} of published epochs cannot be used",
        detail=f"{path}: {detail}",
        hint="restore the file from a backup; its content is the `query_id` of the newest manifest",
    )


Deliver = Callable[[int, pa.Table], None]


@dataclass(frozen=True)
class CollectedSink:
    """A sink that calls `deliver(epoch, rows)` once for each epoch with rows, in order of epochs."""

    kind: str
    deliver: Deliver = field(compare=False, repr=False)
    extension: ResultFormat = "arrow"
    compression: Compression = "none"

    def identity(self) -> dict[str, Any]:
        return {}

    def staging(self, checkpoint: Path, output: str) -> Path:
        return checkpoint / output

    def check(self, checkpoint: Path, output: str, query_id: str | None) -> None:
        """Accept any place: the rows are in the checkpoint."""

    def prepare(self, checkpoint: Path, output: str) -> None:
        make_private_folder(self.staging(checkpoint, output))

    def newest(self, checkpoint: Path, output: str) -> int:
        return 0

    def is_published(self, checkpoint: Path, output: str, file: Staged) -> bool:
        """Return False: delivered files stay staged until they are garbage-collected."""
        return False

    def publish(self, checkpoint: Path, output: str, epoch: int, staged: Sequence[Staged]) -> None:
        folder = self.staging(checkpoint, output)
        if staged:
            self._hand_over(epoch, pa.concat_tables([_read(folder / file.name) for file in staged]))

    def _hand_over(self, epoch: int, rows: pa.Table) -> None:
        """Call the callback; wrap its errors in SinkError."""
        try:
            self.deliver(epoch, rows)
        except PenstockError:
            raise
        except Exception as error:
            raise SinkError(
                f"the callback `{name_of(self.deliver)}` failed",
                detail=describe_error(error),
                hint=f"fix it and restart the query: it then gets the {rows.num_rows} rows of epoch {epoch} again",
            ) from error


def _read(path: Path) -> pa.Table:
    with pa.OSFile(str(path), "rb") as source:
        return pa.ipc.open_file(source).read_all()


class MemoryResults:
    """The rows of an in-memory sink, in order of delivery."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._tables: list[pa.Table] = []

    def deliver(self, epoch: int, rows: pa.Table) -> None:
        self._tables.append(rows)

    def table(self) -> pa.Table:
        return pa.concat_tables([self._schema.empty_table(), *self._tables])
