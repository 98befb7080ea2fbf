"""Cutting files into splits: where a file can be cut is asked once, and remembered until the file is finished."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping

import pyarrow as pa

from penstock.connectors.files.csv.format import CsvFormat
from penstock.connectors.files.format import FileFormat, Part
from penstock.connectors.files.layout import Layout
from penstock.connectors.files.listing import FileId
from penstock.connectors.files.split import FileSplit, unreadable

_BYTES_PER_ROW = 100
_LEAST_ROWS, _MOST_ROWS = 200_000, 400_000  # of a split, where nothing is said


class FileCuts:
    """A cache, and what it takes to make splits: nothing in it would be missed after a crash."""

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
        self._bytes_seen, self._rows_seen = _BYTES_PER_ROW, 1  # of the files opened so far, for estimates

    def split_rows(self, rows: int) -> int:
        """How many rows a split of an epoch of `rows` has: large ones cost less, but every core is to have one."""
        return self._split_rows or max(_LEAST_ROWS, min(_MOST_ROWS, rows // usable_cores()))

    def take(self, file: FileId, at: int, room: int, split_rows: int, *, must: bool) -> tuple[list[FileSplit], int]:
        """Splits of a file from `at` on for about `room` rows (at least one if it `must`), and where they end."""
        layout = self.layout(file)
        taken: list[FileSplit] = []
        while at < layout.end:
            share = max(1, min(layout.rows(at, layout.end), room))
            to = layout.cut(at, share if layout.sequential else _even_share(share, split_rows))
            rows = layout.rows(at, to)
            if rows > room and (taken or not must):
                break
            if rows > 0:  # an empty row group is passed over
                taken.append(self._split(file, at, to, rows))
            at, room = to, room - rows
        return taken, at

    def _split(self, file: FileId, start: int, end: int, rows: int) -> FileSplit:
        format_ = self._format_of(file.path)
        if isinstance(format_, CsvFormat):
            format_ = format_.named(self._schema)
        return FileSplit(Part(file, start, end), format_, self._schema, self._time, rows, self._substream_of(file))

    def layout(self, file: FileId) -> Layout:
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
        """Forgets the layouts of finished files, which a source that follows would otherwise collect for ever."""
        left = set(rest)
        self._layouts = {file: layout for file, layout in self._layouts.items() if file in left}

    def waiting(self, rest: Iterable[FileId], partly: Mapping[FileId, int]) -> int:
        """Rows not offered yet. Files that were never opened count by their bytes, as the known ones have them."""
        unopened = sum(file.size for file in rest if file not in self._layouts)
        rows = unopened * self._rows_seen // self._bytes_seen
        for file, layout in self._layouts.items():
            rows += layout.rows(partly.get(file, layout.begin), layout.end)
        return rows


def _even_share(left: int, split_rows: int) -> int:
    """What one split takes of the rows that are left, so that the splits of a file are of about one size."""
    rows = max(1, left)
    return -(-rows // -(-rows // split_rows))


def usable_cores() -> int:
    """Return how many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
