"""How far a files source has come, small enough to be part of every manifest.

A new file may sort before finished ones, so "everything up to this name" cannot stand for what is finished: each file
is remembered. What is kept of it is nine bytes, six of a hash of its path and three of a hash of its size and time,
written as twelve characters. Files that have vanished are forgotten, so the record grows with the folder and not with
the age of the query. A new file whose path has the hash of a finished one (one in 2^48 per finished file) is reported
as changed, never skipped silently.

A bounded source keeps the files still to be read instead: those that were there at its first offer. Files that come
later are in neither, and are not read.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import xxhash

from penstock.connectors.files.compressed import codec_of
from penstock.connectors.files.listing import FileId, changed, path_of, vanished
from penstock.connectors.recorded import Count, recorded, unusable
from penstock.errors import SourceError

_PATH_BYTES, _IDENTITY_BYTES = 6, 3
_RECORD = _PATH_BYTES + _IDENTITY_BYTES


@dataclass(frozen=True)
class FileProgress:
    """Invariant: `known` maps path hashes to identity hashes, of the finished files when following and of the files
    still to be read (the partly read ones included) when bounded. `partly` says up to where files are read that are
    begun and not finished."""

    follow: bool
    known: Mapping[bytes, bytes]
    partly: Mapping[FileId, int] = field(default_factory=dict)

    def queue(self, listing: tuple[FileId, ...]) -> tuple[FileId, ...]:
        """The files to read next, in order: those partly read first."""
        self._check_partly_read(listing)
        queue = [*self.partly, *(file for file in listing if file not in self.partly and self._wanted(file))]
        if not self.follow and len(queue) < len(self.known):
            raise _some_vanished(len(self.known) - len(queue), len(self.known))
        return tuple(queue)

    def _wanted(self, file: FileId) -> bool:
        identity = self.known.get(_path_hash(file))
        if self.follow and identity is not None and identity != _identity_hash(file):
            raise changed(file.path)
        return (identity is None) == self.follow

    def _check_partly_read(self, listing: tuple[FileId, ...]) -> None:
        for missing in self.partly.keys() - set(listing):
            there = any(file.path == missing.path for file in listing)
            raise changed(missing.path) if there else vanished(missing.path)

    def after(self, finished: Iterable[FileId], partly: Mapping[FileId, int]) -> FileProgress:
        """The progress once `finished` are read to their ends, and no others but those in `partly` are begun."""
        known = dict(self.known)
        for file in finished:
            if self.follow:
                known[_path_hash(file)] = _identity_hash(file)
            else:
                known.pop(_path_hash(file), None)
        return FileProgress(self.follow, known, partly)

    def forget_vanished(self, listing: tuple[FileId, ...]) -> FileProgress:
        """Without the finished files that are gone. An empty listing forgets nothing: it may be a lost mount."""
        if not self.follow or not listing:
            return self
        there = {_path_hash(file) for file in listing}
        return replace(self, known={path: identity for path, identity in self.known.items() if path in there})

    def to_json(self) -> dict[str, Any]:
        records = b"".join(path + identity for path, identity in sorted(self.known.items()))
        partly = [{"path": f.name, "size": f.size, "mtime_ns": f.mtime_ns, "at": at} for f, at in self.partly.items()]
        name = "finished" if self.follow else "remaining"
        return {name: base64.b64encode(records).decode("ascii"), "partly": partly}


def begin(follow: bool, listing: tuple[FileId, ...]) -> FileProgress:
    """The progress before anything is read; a bounded source fixes its list of files here."""
    return FileProgress(follow, {} if follow else {_path_hash(f): _identity_hash(f) for f in listing})


def from_json(progress: dict[str, Any], follow: bool) -> FileProgress:
    name = "finished" if follow else "remaining"
    if name not in progress:
        raise SourceError(
            "the recorded progress is not of this source",
            detail=f"a source with follow={follow} records `{name}`; found {sorted(progress)}",
            hint="start with a new checkpoint after changing `follow`",
        )
    written = recorded({**progress, "files": progress[name]}, _Recorded)
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
    size: Count
    mtime_ns: int
    at: Count


@dataclass(frozen=True)
class _Recorded:
    files: bytes  # base64 in JSON
    partly: tuple[_Partly, ...]


def _path_hash(file: FileId) -> bytes:
    return xxhash.xxh3_64_digest(file.path.encode("utf-8", "surrogateescape"))[:_PATH_BYTES]


def _identity_hash(file: FileId) -> bytes:
    return xxhash.xxh3_64_digest(f"{file.size}:{file.mtime_ns}".encode("ascii"))[:_IDENTITY_BYTES]


def _some_vanished(missing: int, known: int) -> SourceError:
    return SourceError(
        f"{missing} of the {known} files still to be read have vanished",
        detail="a bounded source reads the files that were there when it first ran",
        hint="put them back, or start with a new checkpoint",
    )
