"""Read columnar files, and of these only the requested columns.

Parquet: a split is a range of row groups. Arrow IPC: a split of a file (with a footer) is a range of record batches; an
IPC stream is one split.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.connectors.bad_rows import divert_malformed
from penstock.connectors.files.format import FilePart, check_schema
from penstock.connectors.files.layout import UnitLayout
from penstock.connectors.files.listing import FileId, arrow_file, open_arrow
from penstock.connectors.source import ReadResult
from penstock.types import column_path, conform, place_of

_MAGIC = b"ARROW1"
_STREAM_BYTES_PER_ROW = 64  # an estimate: a stream does not record its number of rows


@dataclass(frozen=True)
class ParquetFormat:
    """Parquet. A position is the index of a row group. `lenient`: columns missing in a file are null."""

    lenient: bool = False

    @property
    def name(self) -> str:
        return "parquet"

    def discover(self, path: str) -> pa.Schema:
        return _distinct_names(pq.read_schema(arrow_file(path)), path)

    def check(self, file: FileId, schema: pa.Schema) -> None:
        check_schema(pq.read_schema(arrow_file(file.path)), schema, file.path, self.lenient)

    def layout(self, file: FileId) -> UnitLayout:
        footer = pq.read_metadata(arrow_file(file.path))
        return UnitLayout(tuple(footer.row_group(i).num_rows for i in range(footer.num_row_groups)))

    def read(self, part: FilePart, schema: pa.Schema, time: str) -> ReadResult:
        path = part.file.path
        with pq.ParquetFile(arrow_file(path), pre_buffer=False) as file:
            paths = [_dotted(file.schema_arrow, name, path) for name in schema.names]
            # No threads: Spark keeps every core busy with other splits.
            groups = list(range(part.start, part.end))
            table = file.read_row_groups(groups, columns=[p for p in paths if p is not None], use_threads=False)
            counts = [file.metadata.row_group(i).num_rows for i in range(part.start)]
        return divert_malformed(
            conform(table, schema, f"`{path}`", lenient=self.lenient), time, path, lambda: sum(counts)
        )


def _dotted(found: pa.Schema, name: str, path: str) -> str | None:
    """Return Parquet's name of a column, the dotted names of the fields that lead to it; None if it is missing."""
    places = column_path(found, name, f"`{path}`")
    if places is None:
        return None
    names, fields = [], found
    for place in places:
        names.append(fields.field(place).name)
        fields = fields.field(place).type
    return ".".join(names)


def _distinct_names(found: pa.Schema, path: str) -> pa.Schema:
    """Return the schema; refuse one with two columns of the same name, which would be ambiguous."""
    for name in found.names:
        place_of(name, found.names, f"`{path}`")
    return found


@dataclass(frozen=True)
class ArrowFormat:
    """Arrow IPC. A position is the index of a record batch; a stream has one batch. `lenient`: missing columns are
    null."""

    lenient: bool = False

    @property
    def name(self) -> str:
        return "arrow"

    def discover(self, path: str) -> pa.Schema:
        with open_arrow(path) as source:
            return _distinct_names(self._schema(source, path), path)

    def check(self, file: FileId, schema: pa.Schema) -> None:
        with open_arrow(file.path) as source:
            check_schema(self._schema(source, file.path), schema, file.path, self.lenient)

    def layout(self, file: FileId) -> UnitLayout:
        if _is_stream(file.path):
            return UnitLayout((max(1, file.size // _STREAM_BYTES_PER_ROW),))
        return UnitLayout(_batch_sizes(file.path))

    def read(self, part: FilePart, schema: pa.Schema, time: str) -> ReadResult:
        path = part.file.path
        stream = _is_stream(path)
        with open_arrow(path) as source:
            found = self._schema(source, path)
        paths = [column_path(found, name, f"`{path}`") for name in schema.names]
        fields = sorted({places[0] for places in paths if places is not None}) or [0]
        options = pa.ipc.IpcReadOptions(included_fields=fields, use_threads=False)
        # Read, not memory-mapped: the rows outlive this call, and if a mapped file shrinks the process is killed.
        with open_arrow(path) as source:
            reader = _open(source, options, stream)
            table = (
                _read_batches(reader, part) if isinstance(reader, pa.ipc.RecordBatchFileReader) else reader.read_all()
            )
        rows = conform(table, schema, f"`{path}`", lenient=self.lenient)
        return divert_malformed(rows, time, path, lambda: 0 if stream else sum(_batch_sizes(path)[: part.start]))

    def _schema(self, source: pa.NativeFile, path: str) -> pa.Schema:
        return _open(source, pa.ipc.IpcReadOptions(use_threads=False), _is_stream(path)).schema


def _read_batches(reader: pa.ipc.RecordBatchFileReader, part: FilePart) -> pa.Table:
    batches = [reader.get_batch(i) for i in range(part.start, part.end)]
    return pa.Table.from_batches(batches, schema=batches[0].schema)


def _batch_sizes(path: str) -> tuple[int, ...]:
    """Return the number of rows of each record batch."""
    # The header of a batch holds its size; with one field included, the others are not read.
    options = pa.ipc.IpcReadOptions(included_fields=[0], use_threads=False)
    with open_arrow(path) as source:
        reader = pa.ipc.open_file(source, options=options)
        return tuple(reader.get_batch(i).num_rows for i in range(reader.num_record_batches))


def _open(
    source: pa.NativeFile, options: pa.ipc.IpcReadOptions, stream: bool
) -> pa.ipc.RecordBatchFileReader | pa.ipc.RecordBatchStreamReader:
    return pa.ipc.open_stream(source, options=options) if stream else pa.ipc.open_file(source, options=options)


def _is_stream(path: str) -> bool:
    """Return whether the file is an IPC stream, without the magic bytes of an IPC file."""
    with open(path, "rb") as file:
        return file.read(len(_MAGIC)) != _MAGIC
