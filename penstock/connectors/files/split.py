"""A split of a file: all that a task needs to read a range of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import pyarrow as pa

from penstock.connectors.files.compressed import codec_of
from penstock.connectors.files.format import FileFormat, FilePart
from penstock.connectors.source import ReadResult, SizedSplit
from penstock.errors import SourceError

_PIECE = 16 << 20


@dataclass(frozen=True)
class FileSplit(SizedSplit):
    """A range of a file, whose rows take about `size` bytes. Reading raises an error if the file has changed since it
    was listed."""

    part: FilePart
    format: FileFormat
    schema: pa.Schema
    time: str
    rows: int
    substream: str
    size: int = 0

    @property
    def where(self) -> str:
        return f"{self.part.file.path} [{self.part.start}, {self.part.end})"

    def read(self, columns: tuple[str, ...]) -> Iterator[ReadResult]:
        """Yield the rows of the range, in order; the file must be unchanged."""
        # The time is always read: rows without one are malformed, whichever columns are requested.
        names = dict.fromkeys((*columns, self.time))
        schema = pa.schema([self.schema.field(name) for name in names])
        self.part.file.check()
        for piece in self._pieces():
            try:
                result = self.format.read(piece, schema, self.time)
            except (pa.ArrowException, OSError) as error:
                raise unreadable(self.part.file.path, self.format, error) from error
            yield replace(result, rows=result.rows.select(list(columns)))

    def _pieces(self) -> Iterator[FilePart]:
        """Yield the ranges to read at a time: a compressed split, which can be large, in steps of some megabytes."""
        part = self.part
        step = _PIECE if codec_of(part.file.path) else part.end - part.start
        for start in range(part.start, part.end, max(1, step)):
            yield replace(part, start=start, end=min(start + step, part.end))


def unreadable(path: str, format_: FileFormat, error: Exception) -> SourceError:
    """Return the error for a file that cannot be read in its format."""
    return SourceError(
        f"cannot read `{path}` as {format_.name}",
        detail=str(error),
        hint="remove or repair the file, or set the right `format`",
    )
