"""The manifest: the record that commits an epoch and holds everything that a driver needs to continue from it.

State slices, marks, the directory, source progress and the names of staged results are committed together, by the
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
_MOST_BYTES, _MOST_GROUPS = 1 << 30, 1 << 20  # far more than any manifest has
_MOST_CELLS = 1_000_000  # cells of a grid: more than a setting allows, and than there can be sites
_FILE_NAME = re.compile(r"(\d{12})\.json")


@dataclass(frozen=True)
class RangeMark:
    """The marks of a range of hashes, one per track: up to them all rows are processed, windows closed and state
    cleaned up."""

    range: HashRange
    marks: tuple[Mark, ...]


@dataclass(frozen=True)
class SiteState:
    """The state of a site: `slices` of state, `pending` state rows that wait to be processed, and rows that an ordered
    merger holds back, which are those of `held` with a time at or above `released`. Work that has progressed equally
    far starts at the hash `turn`, and wraps around; results do not depend on it.

    Invariant: the ranges of `marks` are sorted, do not overlap, and cover the site's groups. Neighbours with equal
    marks are one range, also if hashes of other sites lie between them.
    """

    slices: tuple[Slice, ...]
    marks: tuple[RangeMark, ...]
    pending: tuple[Slice, ...] = ()
    held: tuple[Slice, ...] = ()
    released: Mark = BEGIN
    turn: int = 0

    def all_slices(self) -> tuple[Slice, ...]:
        """Return the slices of state, of pending rows and of held rows."""
        return (*self.slices, *self.pending, *self.held)

    def needed_slices(self) -> tuple[Slice, ...]:
        """Return all slices in the order in which a site needs them: first the held rows, without which nothing passes
        an ordered merger, then the pending rows, then state."""
        return (*self.held, *self.pending, *self.slices)


@dataclass(frozen=True)
class SubqueryState:
    """The directory of a subquery and the state of its sites. Invariant: `sites` has one entry per site of the
    directory."""

    directory: Directory
    sites: tuple[SiteState, ...]


@dataclass(frozen=True)
class SourceState:
    """How far a source is read, and the punctuation of its substreams. `progress` is the source's own plain JSON,
    `floor` the punctuation that the stream already had, `rows` the number of its rows that were numbered."""

    progress: dict[str, Any] | None
    marks: dict[str, Mark]
    ended: bool
    floor: Mark = BEGIN
    rows: int = 0


@dataclass(frozen=True)
class Staged:
    """A file of rows that is or was to be published. `output` is "results", "late" or "bad". `size` and `checksum` are
    those of the bytes that were written."""

    output: str
    name: str
    rows: int
    size: int
    checksum: str


@dataclass(frozen=True)
class Totals:
    """Row counts since the start of the query."""

    rows_in: int = 0
    rows_out: int = 0
    late_rows: int = 0
    bad_rows: int = 0

    def plus(self, other: Totals) -> Totals:
        """Return the sums of two totals."""
        return Totals(
            self.rows_in + other.rows_in,
            self.rows_out + other.rows_out,
            self.late_rows + other.late_rows,
            self.bad_rows + other.bad_rows,
        )


@dataclass(frozen=True)
class Manifest:
    """The committed state of a query after one epoch."""

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
    asked_sites: int = 0  # the setting `sites` that the directories were made for; they are kept until it changes

    def run_names(self) -> set[str]:
        """Return the names of all runs that the state refers to."""
        return {piece.run.name for sub in self.subqueries for site in sub.sites for piece in site.all_slices()}

    def last_with_rows(self, output: str) -> int:
        """Return the newest epoch with rows for an output; 0 if there is none."""
        return self.epoch if any(file.output == output for file in self.staged) else self.published.get(output, 0)

    def next(self, **changes: Any) -> Manifest:
        """Return a manifest for the next epoch, in which all staged files of this one count as published. Requires that
        they are."""
        published = self.published | {file.output: self.epoch for file in self.staged}
        return replace(self, epoch=self.epoch + 1, published=published, **changes)


@dataclass(frozen=True)
class _WrittenDirectory(Directory):
    """A directory as it is written: of each group only the length of its prefix, which determines the group given the
    hash order. Manifests are written and read in every epoch, and there may be ten thousand groups."""

    groups: tuple[int, ...]  # type: ignore[assignment]


@dataclass(frozen=True)
class _WrittenSubquery(SubqueryState):
    """A subquery's state as it is written."""

    directory: _WrittenDirectory


@dataclass(frozen=True)
class _WrittenManifest(Manifest):
    """A manifest as it is written."""

    subqueries: tuple[_WrittenSubquery, ...]


def _written(manifest: Manifest) -> Manifest:
    """Return a manifest in its written form."""
    return replace(manifest, subqueries=tuple(_written_subquery(state) for state in manifest.subqueries))


def _written_subquery(state: SubqueryState) -> SubqueryState:
    depths: Any = state.directory.depths.tolist()
    return replace(state, directory=replace(state.directory, groups=depths))


def _meant(path: Path, written: _WrittenManifest) -> Manifest:
    """Return the manifest of a written form; raises CorruptCheckpointError if a directory is not valid."""
    states = (_plain(SubqueryState, s, directory=_directory(path, s.directory)) for s in written.subqueries)
    return _plain(Manifest, written, subqueries=tuple(states))


def _directory(path: Path, written: _WrittenDirectory) -> Directory:
    """Return the directory of its written form; raises CorruptCheckpointError if it is not valid."""
    depths, homes = written.groups, written.homes
    if len(depths) > _MOST_GROUPS:
        raise corrupt(path, f"a directory in it has {len(depths):,} groups")
    whole = all(0 <= depth <= 64 for depth in depths) and sum(1 << (64 - depth) for depth in depths) == HASH_END
    if not whole or len(homes) != len(depths) or not all(0 <= home < written.sites for home in homes):
        raise corrupt(path, "a directory in it assigns some hashes to no site, or to more than one")
    if written.grid is not None and (min(written.grid) < 1 or prod(written.grid) > _MOST_CELLS):
        raise corrupt(path, "a theta join in it has a grid without cells, or with too many")
    if not are_sound(written.spread, written.sites):
        raise corrupt(path, "a hash in it is spread over sites that do not exist, or is spread twice")
    return _plain(Directory, written, groups=groups_of_depths(depths))


def _plain(kind: type[Kind], written: Any, **changes: Any) -> Kind:
    """Return an instance of `kind` with the same fields, some of them changed."""
    return kind(**{f.name: getattr(written, f.name) for f in fields(kind)} | changes)  # type: ignore[arg-type]


@dataclass(frozen=True)
class _Envelope:
    """The content of a manifest file."""

    checksum: str
    body: msgspec.Raw


def encode(manifest: Manifest) -> bytes:
    """Return the content of a manifest file."""
    body = msgspec.json.encode(_written(manifest))
    return msgspec.json.encode(_Envelope(xxhash.xxh3_64_hexdigest(body), msgspec.Raw(body)))


def decode(path: Path, data: bytes) -> Manifest:
    """Return the manifest of a file's content. Raises CorruptCheckpointError if it is not valid."""
    written = _decoded(path, data, _WrittenManifest)
    manifest = _meant(path, written)
    meant = msgspec.json.decode(msgspec.json.encode(asdict(written)))
    if meant != msgspec.json.decode(data)["body"]:  # a missing field must not get a default
        raise corrupt(path, "a field in it is missing or unknown")
    if path.name != file_name(manifest.epoch):
        raise corrupt(path, f"it is the manifest of epoch {manifest.epoch}")
    for name in manifest.run_names() | {file.name for file in manifest.staged}:
        if name in ("", "..") or name != Path(name).name:  # a name with a path would reach out of the checkpoint
            raise corrupt(path, f"`{name}` is not the name of a file")
    return manifest


def _decoded(path: Path, data: bytes, kind: type[Kind]) -> Kind:
    """Decode the body of a manifest, or the part of it that `kind` has fields for. Checks checksum and format."""
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
    """The part of a manifest that is read first."""

    format: int


def file_name(epoch: int) -> str:
    """Return the name of the manifest file of an epoch."""
    return f"{epoch:012d}.json"


def commit(folder: Path, manifest: Manifest) -> None:
    """Commit an epoch: returns only when the manifest is durable. Raises CheckpointError if another driver has
    committed this epoch.

    The file system may do the work and then report a failure, so after any failure the file itself is read. A failed
    sync is not tried again.
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
    sync_folder(folder)  # the manifest is ours, but the failed call did not sync its name


def _withdraw_if_overtaken(path: Path, epoch: int) -> None:
    """Remove the new manifest and raise CheckpointError if there are later ones. The name of an old epoch is free again
    after its manifest was collected."""
    newest = epochs(path.parent)[-1]
    if newest > epoch:
        path.unlink()
        raise _overtaken(path.with_name(file_name(newest)), newest)


def _overtaken(path: Path, epoch: int) -> CheckpointError:
    return CheckpointError(
        f"another driver has committed epoch {epoch} to this checkpoint",
        detail=str(path),
        hint="let only one run use a checkpoint; this one stops, and the other one continues",
    )


def read(folder: Path, epoch: int) -> Manifest:
    """Read the manifest of an epoch."""
    path = folder / file_name(epoch)
    return decode(path, content(path))


def read_as(folder: Path, epoch: int, kind: type[Kind]) -> Kind:
    """Read a part of a manifest: the fields of `kind`, and of their values the fields that their types have."""
    path = folder / file_name(epoch)
    return _decoded(path, content(path), kind)


def content(path: Path) -> bytes:
    """Return the bytes of a manifest file; raises CorruptCheckpointError if it cannot be read."""
    try:
        return read_plain(path, _MOST_BYTES)
    except OSError as error:
        raise corrupt(path, reason(error)) from error


def epochs(folder: Path) -> list[int]:
    """Return the epochs whose manifests exist, sorted."""
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
