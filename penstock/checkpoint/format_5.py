"""Format 5 of manifests: the fields of the JSON, and the translation between them and the model.

The classes here are the written format. Their names of fields, the order of the fields and their types never change; a
manifest with other fields gets another format number, and a module of its own. Every field is written and every field
is required, so that a missing one never gets a default by accident.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import prod
from typing import Any

import msgspec

from penstock.progress.mark import Mark
from penstock.state.directory import Directory, groups_of_depths
from penstock.state.hash_ranges import HASH_END, HashRange
from penstock.state.hot_keys import Cells, are_sound
from penstock.state.model import Manifest, RangeMark, SiteState, SourceState, Staged, SubqueryState, Totals
from penstock.state.runs import RunFile, Slice

NUMBER = 5
_MOST_GROUPS = 1 << 20  # far more than any manifest has
_MOST_CELLS = 1_000_000  # cells of a grid: more than a setting allows, and than there can be sites


class _Written(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """A JSON object of the format."""


class _Mark(_Written):
    ended: bool
    at: int


class _Range(_Written):
    low: int
    high: int


class _RangeMark(_Written):
    range: _Range
    marks: tuple[_Mark, ...]


class _Run(_Written):
    name: str
    port: int
    rows: int
    size: int
    checksum: str
    min_time: int
    median_time: int
    max_time: int
    blocks: str


class _Slice(_Written):
    run: _Run
    range: _Range


class _Site(_Written):
    slices: tuple[_Slice, ...]
    marks: tuple[_RangeMark, ...]
    pending: tuple[_Slice, ...]
    held: tuple[_Slice, ...]
    released: _Mark
    turn: int


class _Cells(_Written):
    hash: int
    cut: int
    sites: tuple[int, ...]
    gathering: bool


class _Directory(_Written):
    """Of each group only the length of its prefix is written, which determines the group given the hash order: there
    may be ten thousand groups."""

    sites: int
    groups: tuple[int, ...]
    homes: tuple[int, ...]
    spread: tuple[_Cells, ...]
    grid: tuple[int, int] | None


class _Subquery(_Written):
    directory: _Directory
    sites: tuple[_Site, ...]


class _Source(_Written):
    progress: dict[str, Any] | None
    marks: dict[str, _Mark]
    ended: bool
    floor: _Mark
    rows: int


class _Staged(_Written):
    output: str
    name: str
    rows: int
    size: int
    checksum: str


class _Totals(_Written):
    rows_in: int
    rows_out: int
    late_rows: int
    bad_rows: int


class _Manifest(_Written):
    format: int
    query_id: str
    fingerprint: str
    epoch: int
    sources: tuple[_Source, ...]
    subqueries: tuple[_Subquery, ...]
    staged: tuple[_Staged, ...]
    folders: dict[str, str]
    totals: _Totals
    finished: bool
    published: dict[str, int]
    asked_sites: int


# -- writing -------------------------------------------------------------------------------------------------------


def write(manifest: Manifest) -> bytes:
    """Return the body of a manifest file."""
    return msgspec.json.encode(
        _Manifest(
            format=NUMBER,
            query_id=manifest.query_id,
            fingerprint=manifest.fingerprint,
            epoch=manifest.epoch,
            sources=tuple(map(_written_source, manifest.sources)),
            subqueries=tuple(map(_written_subquery, manifest.subqueries)),
            staged=tuple(_Staged(f.output, f.name, f.rows, f.size, f.checksum) for f in manifest.staged),
            folders=manifest.folders,
            totals=_written_totals(manifest.totals),
            finished=manifest.finished,
            published=manifest.published,
            asked_sites=manifest.asked_sites,
        )
    )


def _written_totals(totals: Totals) -> _Totals:
    return _Totals(totals.rows_in, totals.rows_out, totals.late_rows, totals.bad_rows)


def _written_source(source: SourceState) -> _Source:
    marks = {name: _written_mark(mark) for name, mark in source.marks.items()}
    return _Source(source.progress, marks, source.ended, _written_mark(source.floor), source.rows)


def _written_subquery(state: SubqueryState) -> _Subquery:
    return _Subquery(_written_directory(state.directory), tuple(map(_written_site, state.sites)))


def _written_directory(directory: Directory) -> _Directory:
    depths = tuple(directory.depths.tolist())
    spread = tuple(_Cells(cells.hash, cells.cut, cells.sites, cells.gathering) for cells in directory.spread)
    return _Directory(directory.sites, depths, directory.homes, spread, directory.grid)


def _written_site(site: SiteState) -> _Site:
    return _Site(
        slices=_written_slices(site.slices),
        marks=tuple(_RangeMark(_written_range(m.range), tuple(map(_written_mark, m.marks))) for m in site.marks),
        pending=_written_slices(site.pending),
        held=_written_slices(site.held),
        released=_written_mark(site.released),
        turn=site.turn,
    )


def _written_slices(slices: Iterable[Slice]) -> tuple[_Slice, ...]:
    return tuple(_Slice(_written_run(piece.run), _written_range(piece.range)) for piece in slices)


def _written_run(r: RunFile) -> _Run:
    return _Run(r.name, r.port, r.rows, r.size, r.checksum, r.min_time, r.median_time, r.max_time, r.blocks)


def _written_range(part: HashRange) -> _Range:
    return _Range(part.low, part.high)


def _written_mark(mark: Mark) -> _Mark:
    return _Mark(mark.ended, mark.at)


# -- reading -------------------------------------------------------------------------------------------------------


def read(body: bytes) -> Manifest:
    """Return the manifest of a body. Raises ValueError, with the reason, if it is not one."""
    found = msgspec.json.decode(body, type=_Manifest)
    return Manifest(
        query_id=found.query_id,
        fingerprint=found.fingerprint,
        epoch=found.epoch,
        sources=tuple(map(_source, found.sources)),
        subqueries=tuple(map(_subquery, found.subqueries)),
        staged=tuple(Staged(f.output, f.name, f.rows, f.size, f.checksum) for f in found.staged),
        folders=found.folders,
        totals=_totals(found.totals),
        finished=found.finished,
        published=found.published,
        asked_sites=found.asked_sites,
    )


def _totals(found: _Totals) -> Totals:
    return Totals(found.rows_in, found.rows_out, found.late_rows, found.bad_rows)


def _source(found: _Source) -> SourceState:
    marks = {name: _mark(mark) for name, mark in found.marks.items()}
    return SourceState(found.progress, marks, found.ended, _mark(found.floor), found.rows)


def _subquery(found: _Subquery) -> SubqueryState:
    return SubqueryState(_directory(found.directory), tuple(map(_site, found.sites)))


def _directory(found: _Directory) -> Directory:
    """Return the directory of its written form; raises ValueError if it is not valid."""
    depths, homes = found.groups, found.homes
    if len(depths) > _MOST_GROUPS:
        raise ValueError(f"a directory in it has {len(depths):,} groups")
    whole = all(0 <= depth <= 64 for depth in depths) and sum(1 << (64 - depth) for depth in depths) == HASH_END
    if not whole or len(homes) != len(depths) or not all(0 <= home < found.sites for home in homes):
        raise ValueError("a directory in it assigns some hashes to no site, or to more than one")
    if found.grid is not None and (min(found.grid) < 1 or prod(found.grid) > _MOST_CELLS):
        raise ValueError("a theta join in it has a grid without cells, or with too many")
    spread = tuple(Cells(cells.hash, cells.cut, cells.sites, cells.gathering) for cells in found.spread)
    if not are_sound(spread, found.sites):
        raise ValueError("a hash in it is spread over sites that do not exist, or is spread twice")
    return Directory(found.sites, groups_of_depths(depths), homes, spread, found.grid)


def _site(found: _Site) -> SiteState:
    return SiteState(
        slices=_slices(found.slices),
        marks=tuple(RangeMark(_range(m.range), tuple(map(_mark, m.marks))) for m in found.marks),
        pending=_slices(found.pending),
        held=_slices(found.held),
        released=_mark(found.released),
        turn=found.turn,
    )


def _slices(found: Iterable[_Slice]) -> tuple[Slice, ...]:
    return tuple(Slice(_run(piece.run), _range(piece.range)) for piece in found)


def _run(r: _Run) -> RunFile:
    return RunFile(r.name, r.port, r.rows, r.size, r.checksum, r.min_time, r.median_time, r.max_time, r.blocks)


def _range(found: _Range) -> HashRange:
    return HashRange(found.low, found.high)


def _mark(found: _Mark) -> Mark:
    return Mark(found.ended, found.at)


# -- reading names only --------------------------------------------------------------------------------------------


class _NamedFile(msgspec.Struct):
    name: str


class _NamedSlice(msgspec.Struct):
    run: _NamedFile


class _NamesOfSite(msgspec.Struct):
    slices: tuple[_NamedSlice, ...]
    pending: tuple[_NamedSlice, ...]
    held: tuple[_NamedSlice, ...]


class _NamesOfSubquery(msgspec.Struct):
    sites: tuple[_NamesOfSite, ...]


class _Names(msgspec.Struct):
    subqueries: tuple[_NamesOfSubquery, ...]
    staged: tuple[_NamedFile, ...]


def names(body: bytes) -> set[str]:
    """Return the names of the runs and the staged files in a body, without reading the rest of it."""
    found = msgspec.json.decode(body, type=_Names)
    sites = [site for subquery in found.subqueries for site in subquery.sites]
    slices = [piece for site in sites for piece in (*site.slices, *site.pending, *site.held)]
    return {piece.run.name for piece in slices} | {file.name for file in found.staged}
