"""The driver's side of a files source: which ranges of which files the next epoch reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from penstock.connectors.files.cuts import FileCuts
from penstock.connectors.files.listing import FileId, list_files
from penstock.connectors.files.progress import FileProgress, begin, from_json
from penstock.connectors.files.split import FileSplit
from penstock.connectors.source import Offer
from penstock.errors import SourceError


@dataclass(frozen=True)
class _Taken:
    """What an offer takes from the queue of files. Invariant: every file of the queue is in `finished`, or is up to
    `partly` (or up to its beginning, where it is not named there) and not further."""

    splits: tuple[FileSplit, ...]
    finished: tuple[FileId, ...]
    partly: Mapping[FileId, int]


class FilesReader:
    """Asks the file system anew at every offer. `apart`: files are substreams, which are read side by side; otherwise
    they are read one after another."""

    def __init__(self, patterns: tuple[str, ...], follow: bool, apart: bool, cuts: FileCuts) -> None:
        self._patterns, self._follow, self._apart, self._cuts = patterns, follow, apart, cuts

    def offer(self, progress: dict[str, Any] | None, max_rows: int) -> Offer:
        return self.offer_at_most({}, progress, max_rows)

    def offer_at_most(self, most: Mapping[str, int], progress: dict[str, Any] | None, max_rows: int) -> Offer:
        listing = list_files(self._patterns)
        before = self._before(progress, listing)
        queue = before.queue(listing)
        if self._apart:
            taken = self._side_by_side(queue, before.partly, max_rows, most)
        else:
            taken = self._one_by_one(queue, before.partly, max_rows)
        after = before.after(taken.finished, taken.partly).forget_vanished(listing)
        done = set(taken.finished)
        rest = [file for file in queue if file not in done]
        self._cuts.keep_only(rest)
        return Offer(
            taken.splits,
            after.to_json(),
            ended=not self._follow and not rest,
            waiting=self._cuts.waiting(rest, taken.partly),
            finished=tuple(file.name for file in taken.finished) if self._apart else (),
        )

    def _before(self, progress: dict[str, Any] | None, listing: tuple[FileId, ...]) -> FileProgress:
        if progress is not None:
            return from_json(progress, self._follow)
        if not listing and not self._follow:
            raise no_match(self._patterns)
        return begin(self._follow, listing)

    def _one_by_one(self, queue: tuple[FileId, ...], partly: Mapping[FileId, int], room: int) -> _Taken:
        splits: list[FileSplit] = []
        finished: list[FileId] = []
        size = self._cuts.split_rows(room)
        for file in queue:
            if splits and room <= 0:
                break
            taken, at = self._cuts.take(file, self._start(file, partly), room, size, must=not splits)
            splits += taken
            room -= sum(split.rows for split in taken)
            if at < self._cuts.layout(file).end:
                begun = at > self._cuts.layout(file).begin
                return _Taken(tuple(splits), tuple(finished), {file: at} if begun else {})
            finished.append(file)
        return _Taken(tuple(splits), tuple(finished), {})

    def _side_by_side(
        self, queue: tuple[FileId, ...], partly: Mapping[FileId, int], room: int, most: Mapping[str, int]
    ) -> _Taken:
        """An equal share of every file of which nothing else is said: a file that is left for later might begin below
        what the others have reached, and its rows would be late. One that is held back has begun."""
        even, size = room // max(1, len(queue)), self._cuts.split_rows(room)
        shares = {file: most.get(file.name, even) for file in queue}
        taken = {
            file: self._cuts.take(file, self._start(file, partly), share, size, must=file.name not in most or share > 0)
            for file, share in shares.items()
        }
        splits = tuple(split for some, _ in taken.values() for split in some)
        reached = {file: at for file, (_, at) in taken.items() if at < self._cuts.layout(file).end}
        return _Taken(splits, tuple(file for file in queue if file not in reached), reached)

    def _start(self, file: FileId, partly: Mapping[FileId, int]) -> int:
        return partly[file] if file in partly else self._cuts.layout(file).begin


def no_match(patterns: tuple[str, ...]) -> SourceError:
    return SourceError(
        f"no file with data matches `{', '.join(patterns)}`",
        detail="names that begin with . or _, or end in .tmp, .inprogress or .crc, do not count",
        hint="check the path; or declare the schema and set `follow` to wait for files",
    )
