"""What a file format is to the files source."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from penstock.sources.base import ReadResult
from penstock.sources.layout import Layout
from penstock.sources.listing import FileId


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

    def layout(self, file: FileId) -> Layout:
        """Where the file can be cut."""
        ...

    def read(self, part: Part, schema: pa.Schema, time: str) -> ReadResult:
        """The columns of `schema`. Rows that are malformed, or null in the column `time`, go to `bad`."""
        ...
