"""The driver's side of a files source: choose the ranges of files that the next epoch reads."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import xxhash

from penstock.connectors.files.compressed import codec_of
from penstock.connectors.files.cuts import FileCuts
from penstock.connectors.files.listing import FileId, changed, list_files, path_of, vanished
from penstock.connectors.files.split import FileSplit
from penstock.connectors.recorded import NonNegative, recorded, unusable
from penstock.connectors.source import Offer, SubstreamReader
from penstock.errors import SourceError

_PATH_BYTES, _IDENTITY_BYTES = 6, 3
_RECORD = _PATH_BYTES + _IDENTITY_BYTES


@dataclass(frozen=True)
class _Taken:
    """The part of the file queue that an offer takes.

    Invariant: every file of the queue is in `finished`, or is read up to its position in `partly`, or not at all if it
    has none.
    """

    splits: tuple[FileSplit, ...]
    finished: tuple[FileId, ...]
    partly: Mapping[FileId, int]


class FilesReader(SubstreamReader):
    """A reader that lists the files at every offer.

    `apart`: every file is a substream and all are read in parallel; otherwise files are read one after another.
    """

    def __init__(self, patterns: tuple[str, ...], follow: bool, apart: bool, cuts: FileCuts) -> None:
        self._patterns, self._follow, self._apart, self._cuts = patterns, follow, apart, cuts

    def offer(self, progress: dict[str, Any] | None, max_rows: int) -> Offer:
        return self.offer_at_most({}, progress, max_rows)

    def offer_at_most(self, most: Mapping[str, int], progress: dict[str, Any] | None, max_rows: int) -> Offer:
        """Return the next splits; `most` applies only if files are substreams."""
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
        """Return the progress to continue from; without a recorded one, the start."""
        if progress is not None:
            return from_json(progress, self._follow)
        if not listing and not self._follow:
            raise no_match(self._patterns)
        return begin(self._follow, listing)

    def _one_by_one(self, queue: tuple[FileId, ...], partly: Mapping[FileId, int], room: int) -> _Taken:
        """Take about `room` rows from the files in order."""
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
        """Take an equal number of rows of every file, or `most` where it is given.

        A file left for later could start before the watermark that the others have reached, and its rows would be late.
        A file that is held back has already started.
        """
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
    """Return the error for patterns without files."""
    return SourceError(
        f"no file with data matches `{', '.join(patterns)}`",
        detail="names that begin with . or _, or end in .tmp, .inprogress or .crc, do not count",
        hint="check the path; or declare the schema and set `follow` to wait for files",
    )


@dataclass(frozen=True)
class FileProgress:
    """The progress of a files source.

    Invariant: `known` maps path hashes to identity hashes: of the finished files if following, of the files still to be
    read (including partly read ones) if bounded. `partly` has the position reached in each started, unfinished file.
    """

    follow: bool
    known: Mapping[bytes, bytes]
    partly: Mapping[FileId, int] = field(default_factory=dict)

    def queue(self, listing: tuple[FileId, ...]) -> tuple[FileId, ...]:
        """Return the files to read next, in order, partly read ones first."""
        self._check_partly_read(listing)
        queue = [*self.partly, *(file for file in listing if file not in self.partly and self._wanted(file))]
        if not self.follow and len(queue) < len(self.known):
            raise _some_vanished(len(self.known) - len(queue), len(self.known))
        return tuple(queue)

    def _wanted(self, file: FileId) -> bool:
        """Return whether a listed file is still to be read; raise if it was read and has changed."""
        identity = self.known.get(_path_hash(file))
        if self.follow and identity is not None and identity != _identity_hash(file):
            raise changed(file.path)
        return (identity is None) == self.follow

    def _check_partly_read(self, listing: tuple[FileId, ...]) -> None:
        """Raise if a partly read file is gone or has changed."""
        for missing in self.partly.keys() - set(listing):
            there = any(file.path == missing.path for file in listing)
            raise changed(missing.path) if there else vanished(missing.path)

    def after(self, finished: Iterable[FileId], partly: Mapping[FileId, int]) -> FileProgress:
        """Return the progress once `finished` are read completely and only those in `partly` are started."""
        known = dict(self.known)
        for file in finished:
            if self.follow:
                known[_path_hash(file)] = _identity_hash(file)
            else:
                known.pop(_path_hash(file), None)
        return FileProgress(self.follow, known, partly)

    def forget_vanished(self, listing: tuple[FileId, ...]) -> FileProgress:
        """Drop finished files that are gone. An empty listing drops none: it may be a lost mount."""
        if not self.follow or not listing:
            return self
        there = {_path_hash(file) for file in listing}
        return replace(self, known={path: identity for path, identity in self.known.items() if path in there})

    def to_json(self) -> dict[str, Any]:
        """Return the progress as recorded in the manifest; hashes are concatenated in base64."""
        records = b"".join(path + identity for path, identity in sorted(self.known.items()))
        partly = [{"path": f.name, "size": f.size, "mtime_ns": f.mtime_ns, "at": at} for f, at in self.partly.items()]
        name = "finished" if self.follow else "remaining"
        return {name: base64.b64encode(records).decode("ascii"), "partly": partly}


def begin(follow: bool, listing: tuple[FileId, ...]) -> FileProgress:
    """Return the progress before anything is read; a bounded source fixes its list of files here."""
    return FileProgress(follow, {} if follow else {_path_hash(f): _identity_hash(f) for f in listing})


def from_json(progress: dict[str, Any], follow: bool) -> FileProgress:
    """Return the progress that `to_json` wrote; raise SourceError for any other value."""
    name = "finished" if follow else "remaining"
    if name not in progress:
        raise SourceError(
            "the recorded progress does not belong to this source",
            detail=f"a source with follow={follow} records `{name}`; found {sorted(progress)}",
            hint="start with a new checkpoint after changing `follow`",
        )
    written = recorded({**progress, "files": progress[name]}, _RecordedFiles)
    records = (written.files[i : i + _RECORD] for i in range(0, len(written.files), _RECORD))
    known = {record[:_PATH_BYTES]: record[_PATH_BYTES:] for record in records}
    partly = {FileId(path_of(f.path), f.size, f.mtime_ns): f.at for f in written.partly}
    beyond = [file for file, at in partly.items() if at > file.size and codec_of(file.path) is None]
    if len(written.files) % _RECORD or beyond:
        raise unusable("a file is read beyond its end, or a record is cut short")
    return FileProgress(follow, known, partly)


@dataclass(frozen=True)
class _Partly:
    path: str
    size: NonNegative
    mtime_ns: int
    at: NonNegative


@dataclass(frozen=True)
class _RecordedFiles:
    files: bytes  # base64 in JSON
    partly: tuple[_Partly, ...]


def _path_hash(file: FileId) -> bytes:
    return xxhash.xxh3_64_digest(file.path.encode("utf-8", "surrogateescape"))[:_PATH_BYTES]


def _identity_hash(file: FileId) -> bytes:
    return xxhash.xxh3_64_digest(f"{file.size}:{file.mtime_ns}".encode("ascii"))[:_IDENTITY_BYTES]


def _some_vanished(missing: int, known: int) -> SourceError:
    return SourceError(
        f"{missing} of the {known} files still to be read no longer exist",
        detail="a bounded source reads the files that were there when it first ran",
        hint="put them back, or start with a new checkpoint",
    )
