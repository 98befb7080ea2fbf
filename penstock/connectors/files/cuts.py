"""Cut files into splits. The layout of a file is read once and cached until the file is finished."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping

import pyarrow as pa

from penstock.connectors.files.csv.format import CsvFormat
from penstock.connectors.files.format import FileFormat, FilePart
from penstock.connectors.files.layout import Layout
from penstock.connectors.files.listing import FileId
from penstock.connectors.files.split import FileSplit, unreadable

_BYTES_PER_ROW = 100
_LEAST_ROWS, _MOST_ROWS = 200_000, 400_000  # per split, by default


class FileCuts:
    """Makes splits of files, with a cache of their layouts. Losing the cache in a crash is harmless."""

    def __init__(
        self,
        split_rows: int | None,
        format_of: Callable[[str], FileFormat],
        schema: pa.Schema,
        time: str,
        substream_of: Callable[[FileId], str],
    ) -> None:
        self._split_rows, self._format_of = split_rows, format_of
        self._schema, self._time, self._substream_of = schema, time, substream_of
        self._layouts: dict[FileId, Layout] = {}
        self._bytes_seen, self._rows_seen = _BYTES_PER_ROW, 1  # in the files opened so far, for estimates

    def split_rows(self, rows: int) -> int:
        """Return the rows per split for an epoch of `rows` rows: large splits cost less, but every core should get
        one."""
        return self._split_rows or max(_LEAST_ROWS, min(_MOST_ROWS, rows // usable_cores()))

    def take(self, file: FileId, at: int, room: int, split_rows: int, *, must: bool) -> tuple[list[FileSplit], int]:
        """Return splits of a file from position `at`, about `room` rows in total, and the position where they end.

        With `must`, there is at least one split unless the file has no rows left.
        """
        layout = self.layout(file)
        taken: list[FileSplit] = []
        while at < layout.end:
            share = max(1, min(layout.rows(at, layout.end), room))
            to = layout.cut(at, share if layout.sequential else _even_share(share, split_rows))
            rows = layout.rows(at, to)
            if rows > room and (taken or not must):
                break
            if rows > 0:  # skip an empty row group
                taken.append(self._split(file, at, to, rows, layout.size(at, to)))
            at, room = to, room - rows
        return taken, at

    def _split(self, file: FileId, start: int, end: int, rows: int, size: int) -> FileSplit:
        format_ = self._format_of(file.path)
        if isinstance(format_, CsvFormat):
            format_ = format_.named(self._schema)
        part, substream = FilePart(file, start, end), self._substream_of(file)
        return FileSplit(part, format_, self._schema, self._time, rows, substream, size)

    def layout(self, file: FileId) -> Layout:
        """Return the layout of the file; on first use its schema is checked."""
        if file not in self._layouts:
            format_ = self._format_of(file.path)
            try:
                format_.check(file, self._schema)
                layout = format_.layout(file)
            except (pa.ArrowException, OSError) as error:
                raise unreadable(file.path, format_, error) from error
            self._layouts[file] = layout
            self._bytes_seen += file.size
            self._rows_seen += layout.rows(layout.begin, layout.end)
        return self._layouts[file]

    def keep_only(self, rest: Iterable[FileId]) -> None:
        """Drop the layouts of files not in `rest`, which would accumulate in a source that follows."""
        left = set(rest)
        self._layouts = {file: layout for file, layout in self._layouts.items() if file in left}

    def waiting(self, rest: Iterable[FileId], partly: Mapping[FileId, int]) -> int:
        """Return the number of rows not offered yet; files not opened are estimated by their bytes."""
        unopened = sum(file.size for file in rest if file not in self._layouts)
        rows = unopened * self._rows_seen // self._bytes_seen
        for file, layout in self._layouts.items():
            rows += layout.rows(partly.get(file, layout.begin), layout.end)
        return rows


def _even_share(left: int, split_rows: int) -> int:
    """Return the rows of the next split of `left` rows, so that all splits are of about equal size."""
    rows = max(1, left)
    return -(-rows // -(-rows // split_rows))


def usable_cores() -> int:
    """Return how many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
