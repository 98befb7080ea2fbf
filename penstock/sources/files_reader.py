"""The driver's side of a files source: which ranges of which files the next epoch reads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from penstock.errors import SourceError
from penstock.sources.base import Offer
from penstock.sources.csv import CsvFormat
from penstock.sources.file_format import FileFormat, Part
from penstock.sources.file_progress import FileProgress, begin, from_json
from penstock.sources.file_split import FileSplit, unreadable
from penstock.sources.layout import Layout
from penstock.sources.listing import FileId, list_files

_BYTES_PER_ROW = 100


class FilesReader:
    """Asks the file system anew at every offer; what it keeps is only a cache of how files can be cut."""

    def __init__(
        self,
        patterns: tuple[str, ...],
        follow: bool,
        split_rows: int,
        format_of: Callable[[str], FileFormat],
        schema: pa.Schema,
        time: str,
    ) -> None:
        self._patterns, self._follow, self._split_rows = patterns, follow, split_rows
        self._format_of, self._schema, self._time = format_of, schema, time
        self._layouts: dict[FileId, Layout] = {}
        self._bytes_seen, self._rows_seen = _BYTES_PER_ROW, 1  # of the files opened so far, for estimates

    def offer(self, progress: dict[str, Any] | None, max_rows: int) -> Offer:
        listing = list_files(self._patterns)
        before = self._before(progress, listing)
        queue = before.queue(listing)
        splits: list[FileSplit] = []
        finished, current, at, room = 0, None, 0, max_rows
        for file in queue:
            if splits and room <= 0:
                break
            start = before.at if file == before.current else self._layout(file).begin
            taken, at = self._take(file, start, room, must=not splits)
            splits += taken
            room -= sum(split.rows for split in taken)
            if at < self._layout(file).end:
                current = file if at > self._layout(file).begin else None
                break
            finished += 1
        after = before.after(queue[:finished], current, at).forget_vanished(listing)
        rest = self._keep_layouts(queue[finished:])
        waiting = self._waiting(rest, current, at)
        return Offer(tuple(splits), after.to_json(), not self._follow and not rest, waiting)

    def _before(self, progress: dict[str, Any] | None, listing: tuple[FileId, ...]) -> FileProgress:
        if progress is not None:
            return from_json(progress, self._follow)
        if not listing and not self._follow:
            raise no_match(self._patterns)
        return begin(self._follow, listing)

    def _take(self, file: FileId, at: int, room: int, *, must: bool) -> tuple[list[FileSplit], int]:
        """Splits of a file from `at` on for about `room` rows (at least one if it `must`), and where they end."""
        layout = self._layout(file)
        taken: list[FileSplit] = []
        while at < layout.end:
            to = layout.cut(at, min(self._split_rows, max(1, room)))
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
        return FileSplit(Part(file, start, end), format_, self._schema, self._time, rows)

    def _layout(self, file: FileId) -> Layout:
        if file not in self._layouts:
            format_ = self._format_of(file.path)
            try:
                layout = format_.layout(file)
            except (pa.ArrowException, OSError) as error:
                raise unreadable(file.path, format_, error) from error
            self._layouts[file] = layout
            self._bytes_seen += file.size
            self._rows_seen += layout.rows(layout.begin, layout.end)
        return self._layouts[file]

    def _keep_layouts(self, rest: tuple[FileId, ...]) -> tuple[FileId, ...]:
        """Forgets the layouts of finished files, which a source that follows would otherwise collect for ever."""
        left = set(rest)
        self._layouts = {file: layout for file, layout in self._layouts.items() if file in left}
        return rest

    def _waiting(self, rest: tuple[FileId, ...], current: FileId | None, at: int) -> int:
        """Rows not offered yet. Files that were never opened count by their bytes, as the known ones have them."""
        unopened = sum(file.size for file in rest if file not in self._layouts)
        rows = unopened * self._rows_seen // self._bytes_seen
        for file, layout in self._layouts.items():
            rows += layout.rows(at if file == current else layout.begin, layout.end)
        return rows


def no_match(patterns: tuple[str, ...]) -> SourceError:
    return SourceError(
        f"no file with data matches `{', '.join(patterns)}`",
        detail="names that begin with . or _, or end in .tmp, .inprogress or .crc, do not count",
        hint="check the path; or declare the schema and set `follow` to wait for files",
    )
