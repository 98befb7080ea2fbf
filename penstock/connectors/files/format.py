"""The protocol of file formats."""

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
class FilePart:
    """A range of positions of a file, in the units of its layout."""

    file: FileId
    start: int
    end: int


class FileFormat(Protocol):
    """A file format: a frozen value that is part of every split.

    Its methods raise SourceError, or pa.ArrowInvalid and OSError for an unreadable file; the caller adds the path.
    """

    @property
    def name(self) -> str: ...

    def discover(self, path: str) -> pa.Schema:
        """Return the schema of the file, with the types of the format."""
        ...

    def check(self, file: FileId, schema: pa.Schema) -> None:
        """Raise SourceError unless the file has the columns of `schema`, or the format is lenient."""
        ...

    def layout(self, file: FileId) -> Layout:
        """Return the positions at which the file can be cut."""
        ...

    def read(self, part: FilePart, schema: pa.Schema, time: str) -> ReadResult:
        """Return the columns of `schema`. Rows that are malformed, or null in the column `time`, go to `bad`."""
        ...


def with_missing_hint(error: SourceError) -> SourceError:
    """Return the error of a missing column with a hint at `missing = 'null'`."""
    return SourceError(error.what, detail=error.detail, hint="; ".join(filter(None, (error.hint, _MISSING))))


def check_schema(found: pa.Schema, wanted: pa.Schema, path: str, lenient: bool) -> None:
    """Raise unless rows of the schema `found` can be read as rows of `wanted`."""
    try:
        conform(found.empty_table(), wanted, f"`{path}`", lenient=lenient)
    except SourceError as error:
        raise (with_missing_hint(error) if "is missing in" in error.what else error) from error
