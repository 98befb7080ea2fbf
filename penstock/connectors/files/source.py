"""A source of files: a folder (with its subfolders), a file, a glob, or several of these.

Names that begin with `.` or `_`, or end in .tmp, .inprogress or .crc, are ignored in folders and globs. All files are
one substream, read in the natural order of their paths; or each file is a substream, and all are read in parallel. A
bounded source reads the files that exist at its first offer; one that follows also reads files that appear later. A
file must be complete when it appears.

Read columnar files, and of these only the requested columns.

Parquet: a split is a range of row groups. Arrow IPC: a split of a file (with a footer) is a range of record batches; an
IPC stream is one split.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, cast, get_args

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.connectors.bad_rows import divert_malformed
from penstock.connectors.files.compressed import CODECS, codec_of, open_text, without_codec
from penstock.connectors.files.csv.format import CsvFormat
from penstock.connectors.files.cuts import FileCuts
from penstock.connectors.files.format import FileFormat, FilePart, check_schema
from penstock.connectors.files.json.lines import JsonFormat
from penstock.connectors.files.layout import UnitLayout
from penstock.connectors.files.listing import FileId, arrow_file, list_files, open_arrow, would_match
from penstock.connectors.files.reader import FilesReader, no_match
from penstock.connectors.files.split import unreadable
from penstock.connectors.source import ListingConnector, ReadResult
from penstock.errors import ConfigError, SourceError, did_you_mean, printable
from penstock.paths import local_path
from penstock.types import column_path, conform, normalise, place_of

SourceFormat: TypeAlias = Literal["parquet", "arrow", "csv", "json"]
Substreams: TypeAlias = Literal["one", "files"]
Missing: TypeAlias = Literal["error", "null"]
SUBSTREAMS: tuple[str, ...] = get_args(Substreams)
MISSING: tuple[str, ...] = get_args(Missing)
FORMATS: tuple[str, ...] = get_args(SourceFormat)
EXTENSIONS = {
    ".parquet": "parquet", ".arrow": "arrow", ".arrows": "arrow", ".ipc": "arrow", ".feather": "arrow",
    ".csv": "csv", ".tsv": "csv", ".json": "json", ".jsonl": "json", ".ndjson": "json",
}  # fmt: skip


_MAGIC = b"ARROW1"
_STREAM_BYTES_PER_ROW = 64  # an estimate: a stream does not record its number of rows


@dataclass(frozen=True)
class FilesConnector(ListingConnector):
    """The files to read, and how.

    `format` None: by the extension of each file. `split_rows` is the approximate number of rows per split (None:
    200,000 to 400,000, depending on the rows of an epoch); a larger row group or record batch stays whole. `substreams`
    is `one`, or `files`: then each file has its own progress, is finished at its end, and an epoch reads rows of every
    unfinished file. `missing` is `error`, or `null`: then columns that a file lacks are null in its rows.
    """

    path: str | tuple[str, ...]
    format: SourceFormat | None = None
    follow: bool = False
    split_rows: int | None = None
    delimiter: str = ","
    header: bool = True
    substreams: Substreams = "one"
    missing: Missing = "error"

    def __post_init__(self) -> None:
        several = not isinstance(self.path, str | os.PathLike)
        given = tuple(map(os.fspath, self.path)) if several else (os.fspath(cast(str, self.path)),)
        paths = tuple(local_path(path, "a files source") for path in given)
        object.__setattr__(
            self, "path", paths if several else paths[0]
        )  # accepts a Path or a list, and keeps the value hashable
        if not self.patterns or not all(self.patterns):
            raise ConfigError("a files source needs a path", hint="name a folder, a file or a glob such as data/*.csv")
        for pattern in self.patterns:
            if (shown := printable(pattern)) != pattern:
                hint = "rename the folder, or name one above it: files below it may be called anything"
                raise ConfigError(f"the path `{shown}` is not UTF-8", hint=hint)
        if self.format is not None and self.format not in FORMATS:
            raise ConfigError(f"unknown file format `{self.format}`", hint=did_you_mean(self.format, FORMATS))
        if self.split_rows is not None and self.split_rows < 1:
            raise ConfigError(
                "`split_rows` must be at least 1",
                detail=f"it is {self.split_rows}",
                hint="leave it out to choose the size by the rows of an epoch",
            )
        if self.substreams not in SUBSTREAMS:
            raise ConfigError(
                f"unknown substreams `{self.substreams}` of a files source",
                detail="all files are one substream, or each file is a substream",
                hint=did_you_mean(self.substreams, SUBSTREAMS),
            )
        if self.missing not in MISSING:
            raise ConfigError(
                f"`missing` cannot be `{self.missing}`",
                detail="a column that a file lacks is an error, or null",
                hint=did_you_mean(self.missing, MISSING),
            )
        if len(self.delimiter.encode()) != 1 or self.delimiter in '"\r\n':
            raise ConfigError(
                "`delimiter` must be one ASCII character other than a quote or the end of a line",
                detail=f"it is {self.delimiter!r}",
                hint="use ',' or ';' or '\\t'",
            )

    @property
    def kind(self) -> str:
        return "files"

    @property
    def bounded(self) -> bool:
        return not self.follow

    @property
    def patterns(self) -> tuple[str, ...]:
        return (self.path,) if isinstance(self.path, str) else self.path

    def identity(self) -> dict[str, Any]:
        """Return all options but `split_rows`, which can change between runs."""
        return {
            "kind": self.kind,
            "path": [os.path.abspath(pattern) for pattern in self.patterns],
            "format": self.format,
            "follow": self.follow,
            "delimiter": self.delimiter,
            "header": self.header,
            "substreams": self.substreams,
            **({} if self.missing == "error" else {"missing": self.missing}),
        }

    def would_list(self, path: str) -> bool:
        return any(would_match(pattern, path) for pattern in self.patterns)

    def discover(self) -> pa.Schema:
        """Return the schema of the first file that is not empty."""
        file = next((file for file in list_files(self.patterns) if _has_content(file)), None)
        if file is None:
            raise no_match(self.patterns)
        format_ = self.format_of(file.path)
        try:
            return normalise(format_.discover(file.path))
        except (pa.ArrowException, OSError) as error:
            raise unreadable(file.path, format_, error) from error

    def open(self, schema: pa.Schema, time: str) -> FilesReader:
        apart = self.substreams == "files"
        cuts = FileCuts(self.split_rows, self.format_of, schema, time, _own_substream if apart else _one_substream)
        return FilesReader(self.patterns, self.follow, apart, cuts)

    def format_of(self, path: str) -> FileFormat:
        """Return the format of a file, by the option or by its extension."""
        extension = os.path.splitext(without_codec(path))[1].lower()
        lenient = self.missing == "null"
        match self.format or EXTENSIONS.get(extension):
            case "parquet" | "arrow" as name if codec_of(path):
                raise SourceError(
                    f"`{path}` cannot be read: only CSV and JSON files may be compressed as a whole",
                    detail=f"its format is {name}, which has built-in compression",
                    hint="decompress the file",
                )
            case "parquet":
                return ParquetFormat(lenient)
            case "arrow":
                return ArrowFormat(lenient)
            case "csv":
                delimiter = "\t" if extension == ".tsv" and self.delimiter == "," else self.delimiter
                return CsvFormat(delimiter, self.header, lenient=lenient)
            case "json":
                return JsonFormat(lenient)
        raise SourceError(
            f"cannot tell the format of `{path}`",
            detail=f"known extensions: {', '.join(EXTENSIONS)}; of text also with {' or '.join(CODECS)} appended",
            hint="set `format`, or use a glob that matches only the files to read",
        )


def _has_content(file: FileId) -> bool:
    """Return whether the file has any data; a compressed empty file still has some bytes."""
    if codec_of(file.path) is None:
        return file.size > 0
    with open_text(file.path) as text:
        return bool(text.read(1))


def _one_substream(file: FileId) -> str:
    return "files"


def _own_substream(file: FileId) -> str:
    return file.name


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
        groups = [footer.row_group(i) for i in range(footer.num_row_groups)]
        size = sum(group.total_byte_size for group in groups)
        return UnitLayout(tuple(group.num_rows for group in groups), size / max(1, footer.num_rows))

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
            return UnitLayout((max(1, file.size // _STREAM_BYTES_PER_ROW),), _STREAM_BYTES_PER_ROW)
        rows = _batch_sizes(file.path)
        return UnitLayout(rows, file.size / max(1, sum(rows)))

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
