"""The protocol of sinks, and the writer of staged files.

A task writes rows into one staged file; the manifest names it; after the commit the driver publishes it. Publishing is
repeated after a crash, so it must be idempotent, or the sink must document that it is at-least-once.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from penstock.arrow import Compression, FileFormat
from penstock.connectors.sinks.hashed_file import HashedFile
from penstock.plan.logical import Connector
from penstock.state.model import Staged
from penstock.storage.disk_errors import writing
from penstock.storage.durable import Sync, make_private_folder, sync_file

_SAMPLE = 2048


class SinkConnector(Connector, Protocol):
    """A connector that results are written to."""

    @property
    def extension(self) -> FileFormat:
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
