"""Arrow IPC: of a file (with a footer) a split is some neighbouring record batches; a stream is one split."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from penstock.connectors.bad_rows import divert_malformed
from penstock.connectors.files.format import Part, check_schema
from penstock.connectors.files.layout import UnitLayout
from penstock.connectors.files.listing import FileId, open_arrow
from penstock.connectors.files.parquet import distinct_names
from penstock.connectors.source import ReadResult
from penstock.types import column_path, conform

_MAGIC = b"ARROW1"
_STREAM_BYTES_PER_ROW = 64  # a stream does not say how many rows it has


@dataclass(frozen=True)
class ArrowFormat:
    """A position is the number of a record batch; a stream has the positions 0 and 1. `lenient`: a file may lack
    columns, which are null."""

    lenient: bool = False

    @property
    def name(self) -> str:
        return "arrow"

    def discover(self, path: str) -> pa.Schema:
        with open_arrow(path) as source:
            return distinct_names(self._schema(source, path), path)

    def check(self, file: FileId, schema: pa.Schema) -> None:
        with open_arrow(file.path) as source:
            check_schema(self._schema(source, file.path), schema, file.path, self.lenient)

    def layout(self, file: FileId) -> UnitLayout:
        if _is_stream(file.path):
            return UnitLayout((max(1, file.size // _STREAM_BYTES_PER_ROW),))
        return UnitLayout(_batch_sizes(file.path))

    def read(self, part: Part, schema: pa.Schema, time: str) -> ReadResult:
        path = part.file.path
        stream = _is_stream(path)
        with open_arrow(path) as source:
            found = self._schema(source, path)
        paths = [column_path(found, name, f"`{path}`") for name in schema.names]
        fields = sorted({places[0] for places in paths if places is not None}) or [0]
        options = pa.ipc.IpcReadOptions(included_fields=fields, use_threads=False)
        # Read, not mapped: the rows outlive this call, and a mapped file that shrinks kills the process.
        with open_arrow(path) as source:
            reader = _open(source, options, stream)
            table = reader.read_all() if stream else _read_batches(reader, part)
        rows = conform(table, schema, f"`{path}`", lenient=self.lenient)
        return divert_malformed(rows, time, path, lambda: 0 if stream else sum(_batch_sizes(path)[: part.start]))

    def _schema(self, source: pa.NativeFile, path: str) -> pa.Schema:
        return _open(source, pa.ipc.IpcReadOptions(use_threads=False), _is_stream(path)).schema


def _read_batches(reader: pa.ipc.RecordBatchFileReader, part: Part) -> pa.Table:
    batches = [reader.get_batch(i) for i in range(part.start, part.end)]
    return pa.Table.from_batches(batches, schema=batches[0].schema)


def _batch_sizes(path: str) -> tuple[int, ...]:
    # A batch's header holds its size; asking for one field alone keeps the others unread.
    options = pa.ipc.IpcReadOptions(included_fields=[0], use_threads=False)
    with open_arrow(path) as source:
        reader = pa.ipc.open_file(source, options=options)
        return tuple(reader.get_batch(i).num_rows for i in range(reader.num_record_batches))


def _open(
    source: pa.NativeFile, options: pa.ipc.IpcReadOptions, stream: bool
) -> pa.ipc.RecordBatchFileReader | pa.ipc.RecordBatchStreamReader:
    return pa.ipc.open_stream(source, options=options) if stream else pa.ipc.open_file(source, options=options)


def _is_stream(path: str) -> bool:
    with open(path, "rb") as file:
        return file.read(len(_MAGIC)) != _MAGIC
