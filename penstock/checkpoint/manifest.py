"""The manifest: the record that commits an epoch, and all that a driver needs to go on from it.

State slices, marks, the directory, source progress and the names of staged results become true together, by the
creation of one file. The file is JSON: a checksum and the body it covers.
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, field, fields, replace
from math import prod
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import xxhash

from penstock.errors import CheckpointError, CorruptCheckpointError
from penstock.progress.mark import BEGIN, Mark
from penstock.state.directory import Directory, groups_of_depths
from penstock.state.hash_ranges import HASH_END, HashRange
from penstock.state.hot_keys import are_sound
from penstock.state.runs import Slice
from penstock.storage.durable import NotDurable, create_exclusive, sync_folder
from penstock.storage.plain_file import read_plain, reason

FORMAT = 5
Kind = TypeVar("Kind")
_MOST_BYTES, _MOST_GROUPS = 1 << 30, 1 << 20  # far beyond any manifest that was ever written
_MOST_CELLS = 1_000_000  # of a grid: more than a setting can ask for, and than there can be sites
_FILE_NAME = re.compile(r"(\d{12})\.json")


@dataclass(frozen=True)
class RangeMark:
    """The marks of a range of hashes, one per track: up to them, their rows, closings and clean-up are all done."""

    range: HashRange
    marks: tuple[Mark, ...]


@dataclass(frozen=True)
class SiteState:
    """What a site holds: state, state rows that wait for work (`pending`), and rows that an ordered merger holds back:
    those of `held` with a time that is not below `released`. Of the work that is left, and that has come equally far,
    the hash `turn` and those above it come first; nothing that is put out depends on it.

    Invariant: the ranges of `marks` are in order, do not overlap, and cover the site's groups; neighbours with the same
    marks are one range, also where hashes between them are not the site's.
    """

    slices: tuple[Slice, ...]
    marks: tuple[RangeMark, ...]
    pending: tuple[Slice, ...] = ()
    held: tuple[Slice, ...] = ()
    released: Mark = BEGIN
    turn: int = 0

    def all_slices(self) -> tuple[Slice, ...]:
        return (*self.slices, *self.pending, *self.held)

    def needed_slices(self) -> tuple[Slice, ...]:
        """The same in the order in which a site needs them: no row goes through an ordered merger, and none is worked
        on, without those that wait there."""
        return (*self.held, *self.pending, *self.slices)


@dataclass(frozen=True)
class SubqueryState:
    """Invariant: `sites` has one entry per site of the directory."""

    directory: Directory
    sites: tuple[SiteState, ...]


@dataclass(frozen=True)
class SourceState:
    """How far a source is read, and the punctuation of its substreams. `progress` is the source's own plain JSON,
    `floor` the punctuation that the stream has had already, `rows` how many of its rows have a number."""

    progress: dict[str, Any] | None
    marks: dict[str, Mark]
    ended: bool
    floor: Mark = BEGIN
    rows: int = 0


@dataclass(frozen=True)
class Staged:
    """A file of rows that waits to be published, or has been. `output` is "results", "late" or "bad". `size` and
    `checksum` are those of the bytes that were written."""

    output: str
    name: str
    rows: int
    size: int
    checksum: str


@dataclass(frozen=True)
class Totals:
    """Counts since the start of the query."""

    rows_in: int = 0
    rows_out: int = 0
    late_rows: int = 0
    bad_rows: int = 0

    def plus(self, other: Totals) -> Totals:
        return Totals(
            self.rows_in + other.rows_in,
            self.rows_out + other.rows_out,
            self.late_rows + other.late_rows,
            self.bad_rows + other.bad_rows,
        )


@dataclass(frozen=True)
class Manifest:
    format: int
    query_id: str
    fingerprint: str
    epoch: int
    sources: tuple[SourceState, ...]
    subqueries: tuple[SubqueryState, ...]
    staged: tuple[Staged, ...]
    folders: dict[str, str]  # where each output is staged, on this machine
    totals: Totals
    finished: bool
    published: dict[str, int] = field(default_factory=dict)  # of each output the newest epoch with rows before this one
    asked_sites: int = 0  # the setting that the directories began with: they stay as they are until it changes

    def run_names(self) -> set[str]:
        return {piece.run.name for sub in self.subqueries for site in sub.sites for piece in site.all_slices()}

    def last_with_rows(self, output: str) -> int:
        """The newest epoch that has put rows out to an output; 0 where none has."""
        return self.epoch if any(file.output == output for file in self.staged) else self.published.get(output, 0)

    def next(self, **changes: Any) -> Manifest:
        """A manifest for the next epoch. It can only come to be when all of this one is published."""
        published = self.published | {file.output: self.epoch for file in self.staged}
        return replace(self, epoch=self.epoch + 1, published=published, **changes)


@dataclass(frozen=True)
class _WrittenDirectory(Directory):
    """Of each group only the length of its prefix is written, which in order of hash tells all of it: manifests are
    written and read in every epoch, and there may be ten thousand groups."""

    groups: tuple[int, ...]  # type: ignore[assignment]


@dataclass(frozen=True)
class _WrittenSubquery(SubqueryState):
    directory: _WrittenDirectory


@dataclass(frozen=True)
class _WrittenManifest(Manifest):
    subqueries: tuple[_WrittenSubquery, ...]


def _written(manifest: Manifest) -> Manifest:
    return replace(manifest, subqueries=tuple(_written_subquery(state) for state in manifest.subqueries))


def _written_subquery(state: SubqueryState) -> SubqueryState:
    depths: Any = state.directory.depths.tolist()
    return replace(state, directory=replace(state.directory, groups=depths))


def _meant(path: Path, written: _WrittenManifest) -> Manifest:
    states = (_plain(SubqueryState, s, directory=_directory(path, s.directory)) for s in written.subqueries)
    return _plain(Manifest, written, subqueries=tuple(states))


def _directory(path: Path, written: _WrittenDirectory) -> Directory:
    depths, homes = written.groups, written.homes
    if len(depths) > _MOST_GROUPS:
        raise corrupt(path, f"a directory in it has {len(depths):,} groups")
    whole = all(0 <= depth <= 64 for depth in depths) and sum(1 << (64 - depth) for depth in depths) == HASH_END
    if not whole or len(homes) != len(depths) or not all(0 <= home < written.sites for home in homes):
        raise corrupt(path, "a directory in it has hashes without a home, or with more than one")
    if written.grid is not None and (min(written.grid) < 1 or prod(written.grid) > _MOST_CELLS):
        raise corrupt(path, "a theta join in it has a grid without cells, or with too many")
    if not are_sound(written.spread, written.sites):
        raise corrupt(path, "a hash in it is spread over sites that there are not, or more than once")
    return _plain(Directory, written, groups=groups_of_depths(depths))


def _plain(kind: type[Kind], written: Any, **changes: Any) -> Kind:
    """The same fields, some of them changed."""
    return kind(**{f.name: getattr(written, f.name) for f in fields(kind)} | changes)  # type: ignore[arg-type]


@dataclass(frozen=True)
class _Envelope:
    checksum: str
    body: msgspec.Raw


def encode(manifest: Manifest) -> bytes:
    body = msgspec.json.encode(_written(manifest))
    return msgspec.json.encode(_Envelope(xxhash.xxh3_64_hexdigest(body), msgspec.Raw(body)))


def decode(path: Path, data: bytes) -> Manifest:
    written = _decoded(path, data, _WrittenManifest)
    manifest = _meant(path, written)
    meant = msgspec.json.decode(msgspec.json.encode(asdict(written)))
    if meant != msgspec.json.decode(data)["body"]:  # a default is no answer to a missing field
        raise corrupt(path, "a field in it is missing, or one is there that nobody knows")
    if path.name != file_name(manifest.epoch):
        raise corrupt(path, f"it is the manifest of epoch {manifest.epoch}")
    for name in manifest.run_names() | {file.name for file in manifest.staged}:
        if name in ("", "..") or name != Path(name).name:  # a name with a path would reach out of the checkpoint
            raise corrupt(path, f"`{name}` is not the name of a file")
    return manifest


def _decoded(path: Path, data: bytes, kind: type[Kind]) -> Kind:
    """The body of a manifest, or as much of it as is of interest."""
    try:
        envelope = msgspec.json.decode(data, type=_Envelope)
        if xxhash.xxh3_64_hexdigest(bytes(envelope.body)) != envelope.checksum:
            raise corrupt(path, "its checksum does not match its content")
        version = msgspec.json.decode(envelope.body, type=_Version).format
        if version != FORMAT:
            raise _other_format(path, version)
        return msgspec.json.decode(envelope.body, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise corrupt(path, str(error)) from error


@dataclass(frozen=True)
class _Version:
    format: int


def file_name(epoch: int) -> str:
    return f"{epoch:012d}.json"


def commit(folder: Path, manifest: Manifest) -> None:
    """Make an epoch true. Returns only when it is; raises where another driver has committed this epoch.

    The file system may do the work and lose the answer, so after any failure the file itself is asked; but what could
    not be made durable is not tried again.
    """
    path, data = folder / file_name(manifest.epoch), encode(manifest)
    try:
        if create_exclusive(path, data):
            return _withdraw_if_overtaken(path, manifest.epoch)
    except NotDurable:
        raise
    except OSError:
        if not path.exists():
            raise
    if content(path) != data:
        raise _overtaken(path, manifest.epoch)
    sync_folder(folder)  # it is ours, but whoever made it visible did not get to this


def _withdraw_if_overtaken(path: Path, epoch: int) -> None:
    """The name of an old epoch is free again once its manifest is collected; by then there are later ones."""
    newest = epochs(path.parent)[-1]
    if newest > epoch:
        path.unlink()
        raise _overtaken(path.with_name(file_name(newest)), newest)


def _overtaken(path: Path, epoch: int) -> CheckpointError:
    return CheckpointError(
        f"another driver has committed epoch {epoch} to this checkpoint",
        detail=str(path),
        hint="let only one run use a checkpoint; this one stops, and the other one goes on",
    )


def read(folder: Path, epoch: int) -> Manifest:
    path = folder / file_name(epoch)
    return decode(path, content(path))


def read_as(folder: Path, epoch: int, kind: type[Kind]) -> Kind:
    """A part of a manifest: the fields that `kind` has, and of their values those that theirs have."""
    path = folder / file_name(epoch)
    return _decoded(path, content(path), kind)


def content(path: Path) -> bytes:
    try:
        return read_plain(path, _MOST_BYTES)
    except OSError as error:
        raise corrupt(path, reason(error)) from error


def epochs(folder: Path) -> list[int]:
    """The epochs whose manifests are there, in order."""
    return sorted(int(match[1]) for p in folder.iterdir() if (match := _FILE_NAME.fullmatch(p.name)))


def corrupt(path: Path, detail: str) -> CorruptCheckpointError:
    return CorruptCheckpointError(
        f"the manifest {path.name} of the checkpoint cannot be used",
        detail=f"{path}: {detail}",
        hint="restore the file from a backup, or start again with a new checkpoint",
    )


def _other_format(path: Path, found: int) -> CheckpointError:
    return CheckpointError(
        f"the checkpoint has format {found}, and this version of Penstock reads format {FORMAT}",
        detail=str(path),
        hint="use the version that wrote it, or start again with a new checkpoint",
    )
