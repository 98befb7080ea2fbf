"""What a sink is to the engine, and how its rows are staged.

A task writes rows into one staged file; the manifest names it; after the commit the driver publishes it. Publishing is
repeated after a crash, so it must be idempotent, or the sink must say that it is at-least-once.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from penstock.checkpoint.manifest import Staged
from penstock.connectors.sinks.hashed_file import HashedFile
from penstock.plan.logical import Connector
from penstock.storage.disk_errors import writing
from penstock.storage.durable import Sync, make_private_folder, sync_file

_SAMPLE = 2048


class SinkConnector(Connector, Protocol):
    @property
    def extension(self) -> str:
        """The format of its staged files: "parquet" or "arrow"."""
        ...

    @property
    def compression(self) -> str:
        """How Parquet files are compressed, or "none"; Arrow files never are."""
        ...

    def staging(self, checkpoint: Path, output: str) -> Path:
        """Where tasks write, on the file system that the sink publishes to."""
        ...

    def check(self, checkpoint: Path, output: str, query_id: str | None) -> None:
        """Refuse a place that holds results of others, and change nothing. A query that is new has no id yet."""
        ...

    def prepare(self, checkpoint: Path, output: str) -> None:
        """Make the folders, before the first epoch of a run."""
        ...

    def newest(self, checkpoint: Path, output: str) -> int:
        """The newest epoch of which rows can be seen; 0 where there are none, or nobody can tell."""
        ...

    def is_published(self, checkpoint: Path, output: str, file: Staged) -> bool:
        """Whether a file that is no longer staged has been published, as far as the sink can tell."""
        ...

    def publish(self, checkpoint: Path, output: str, epoch: int, staged: Sequence[Staged]) -> None:
        """Let readers see staged files, which are whole."""
        ...


class RowWriter:
    """Writes one staged file, opened at the first rows; no rows, no file."""

    def __init__(self, path: Path, schema: pa.Schema, compression: str = "lz4", sync: Sync = sync_file) -> None:
        self._path, self._schema, self._compression, self._sync = path, schema, compression, sync
        self._file: HashedFile | None = None
        self._writer: pq.ParquetWriter | pa.RecordBatchFileWriter | None = None
        self.rows = 0

    def write(self, rows: pa.Table) -> None:
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
                use_dictionary=_repeating(first),
                write_statistics=False,
            )
        else:
            self._writer = pa.ipc.new_file(pa.PythonFile(self._file, "w"), self._schema)

    def finish(self, output: str) -> Staged | None:
        """Make the file durable, or begin to, and describe it."""
        if self._writer is None or self._file is None:
            return None
        with writing(self._path):
            self._writer.close()
            self._file.close()
        self._sync(self._path)
        return Staged(output, self._path.name, self.rows, self._file.size, self._file.checksum)


def _repeating(rows: pa.Table) -> list[str]:
    """The columns whose values repeat, by a sample: a dictionary makes them smaller, and any other column slower."""
    sample = rows.take(pa.array(np.linspace(0, rows.num_rows - 1, min(rows.num_rows, _SAMPLE), dtype=np.int64)))
    kinds = [f.name for f in rows.schema if pa.types.is_string(f.type) or pa.types.is_timestamp(f.type)]
    return [name for name in kinds if 2 * pc.count_distinct(sample.column(name)).as_py() <= sample.num_rows]
