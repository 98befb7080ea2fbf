"""A source of files: a folder (with its subfolders), a file, a glob, or several of these.

Names that begin with `.` or `_`, or end in .tmp, .inprogress or .crc, are ignored in folders and globs. All files are
one substream, read in the natural order of their paths; or each file is a substream, and all are read in parallel. A
bounded source reads the files that exist at its first offer; one that follows also reads files that appear later. A
file must be complete when it appears.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, cast, get_args

import pyarrow as pa

from penstock.connectors.files.columnar import ArrowFormat, ParquetFormat
from penstock.connectors.files.compressed import CODECS, codec_of, open_text, without_codec
from penstock.connectors.files.csv.format import CsvFormat
from penstock.connectors.files.cuts import FileCuts
from penstock.connectors.files.format import FileFormat
from penstock.connectors.files.json.lines import JsonFormat
from penstock.connectors.files.listing import FileId, list_files, would_match
from penstock.connectors.files.reader import FilesReader, no_match
from penstock.connectors.files.split import unreadable
from penstock.errors import ConfigError, SourceError, did_you_mean, printable
from penstock.paths import local_path
from penstock.types import normalise

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


@dataclass(frozen=True)
class FilesConnector:
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
