"""What a file format is to the files source."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from penstock.connectors.files.layout import Layout
from penstock.connectors.files.listing import FileId
from penstock.connectors.source import ReadResult
from penstock.errors import SourceError
from penstock.types import conform

_MISSING = "with missing = 'null' a column that a file lacks is null"


@dataclass(frozen=True)
class Part:
    """A range of positions of a file, as its layout counts them."""

    file: FileId
    start: int
    end: int


class FileFormat(Protocol):
    """A frozen value that travels with every split. Its methods raise SourceError, or pa.ArrowInvalid and OSError
    where the file cannot be read; the caller says which file it was."""

    @property
    def name(self) -> str: ...

    def discover(self, path: str) -> pa.Schema:
        """The schema of the file, as the format has it."""
        ...

    def check(self, file: FileId, schema: pa.Schema) -> None:
        """Raise SourceError unless the file has the columns of `schema`, or may lack some."""
        ...

    def layout(self, file: FileId) -> Layout:
        """Where the file can be cut."""
        ...

    def read(self, part: Part, schema: pa.Schema, time: str) -> ReadResult:
        """The columns of `schema`. Rows that are malformed, or null in the column `time`, go to `bad`."""
        ...


def with_missing_hint(error: SourceError) -> SourceError:
    """The error of a file that lacks a column, with the way out."""
    return SourceError(error.what, detail=error.detail, hint="; ".join(filter(None, (error.hint, _MISSING))))


def check_schema(found: pa.Schema, wanted: pa.Schema, path: str, lenient: bool) -> None:
    """Raise unless rows of the schema `found` can be read as rows of `wanted`."""
    try:
        conform(found.empty_table(), wanted, f"`{path}`", lenient=lenient)
    except SourceError as error:
        raise (with_missing_hint(error) if "is missing in" in error.what else error) from error
