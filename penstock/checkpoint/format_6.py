"""Format 6 of manifests: the fields of the JSON, and the translation between them and the model.

The classes here are the written format. Their names of fields, the order of the fields and their types never change; a
manifest with other fields gets another format number, and a module of its own. Every field is written and every field
is required, so that a missing one never gets a default by accident.
"""

from __future__ import annotations

import msgspec

from penstock.checkpoint.written import (
    NamedFile,
    NamedSlice,
    WrittenDirectory,
    WrittenMark,
    WrittenObject,
    WrittenRange,
    WrittenRangeMark,
    WrittenSlice,
    WrittenSource,
    WrittenStaged,
    WrittenTotals,
    read_directory,
    read_mark,
    read_range,
    read_slices,
    read_source,
    read_totals,
    written_directory,
    written_mark,
    written_range,
    written_slices,
    written_source,
    written_totals,
)
from penstock.state.model import Manifest, ParkedRange, RangeMark, SiteState, Staged, SubqueryState

NUMBER = 6


class _Parked(WrittenObject):
    range: WrittenRange
    generations: tuple[tuple[WrittenSlice, ...], ...]


class _Site(WrittenObject):
    slices: tuple[WrittenSlice, ...]
    marks: tuple[WrittenRangeMark, ...]
    pending: tuple[WrittenSlice, ...]
    held: tuple[WrittenSlice, ...]
    released: WrittenMark
    turn: int
    parked: tuple[_Parked, ...]
    active: tuple[WrittenSlice, ...]


class _Subquery(WrittenObject):
    directory: WrittenDirectory
    sites: tuple[_Site, ...]


class _Manifest(WrittenObject):
    format: int
    query_id: str
    fingerprint: str
    epoch: int
    sources: tuple[WrittenSource, ...]
    subqueries: tuple[_Subquery, ...]
    staged: tuple[WrittenStaged, ...]
    folders: dict[str, str]
    totals: WrittenTotals
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
            sources=tuple(map(written_source, manifest.sources)),
            subqueries=tuple(map(_written_subquery, manifest.subqueries)),
            staged=tuple(WrittenStaged(f.output, f.name, f.rows, f.size, f.checksum) for f in manifest.staged),
            folders=manifest.folders,
            totals=written_totals(manifest.totals),
            finished=manifest.finished,
            published=manifest.published,
            asked_sites=manifest.asked_sites,
        )
    )


def _written_subquery(state: SubqueryState) -> _Subquery:
    return _Subquery(written_directory(state.directory), tuple(map(_written_site, state.sites)))


def _written_site(site: SiteState) -> _Site:
    return _Site(
        slices=written_slices(site.slices),
        marks=tuple(WrittenRangeMark(written_range(m.range), tuple(map(written_mark, m.marks))) for m in site.marks),
        pending=written_slices(site.pending),
        held=written_slices(site.held),
        released=written_mark(site.released),
        turn=site.turn,
        parked=tuple(map(_written_parked, site.parked)),
        active=written_slices(site.active),
    )


def _written_parked(parked: ParkedRange) -> _Parked:
    return _Parked(written_range(parked.range), tuple(map(written_slices, parked.generations)))


# -- reading -------------------------------------------------------------------------------------------------------


def read(body: bytes) -> Manifest:
    """Return the manifest of a body. Raises ValueError, with the reason, if it is not one."""
    found = msgspec.json.decode(body, type=_Manifest)
    return Manifest(
        query_id=found.query_id,
        fingerprint=found.fingerprint,
        epoch=found.epoch,
        sources=tuple(map(read_source, found.sources)),
        subqueries=tuple(map(_subquery, found.subqueries)),
        staged=tuple(Staged(f.output, f.name, f.rows, f.size, f.checksum) for f in found.staged),
        folders=found.folders,
        totals=read_totals(found.totals),
        finished=found.finished,
        published=found.published,
        asked_sites=found.asked_sites,
    )


def _subquery(found: _Subquery) -> SubqueryState:
    return SubqueryState(read_directory(found.directory), tuple(map(_site, found.sites)))


def _site(found: _Site) -> SiteState:
    return SiteState(
        slices=read_slices(found.slices),
        marks=tuple(RangeMark(read_range(m.range), tuple(map(read_mark, m.marks))) for m in found.marks),
        pending=read_slices(found.pending),
        held=read_slices(found.held),
        released=read_mark(found.released),
        turn=found.turn,
        parked=tuple(map(_parked, found.parked)),
        active=read_slices(found.active),
    )


def _parked(found: _Parked) -> ParkedRange:
    return ParkedRange(read_range(found.range), tuple(map(read_slices, found.generations)))


# -- reading names only --------------------------------------------------------------------------------------------


class _NamesOfParked(msgspec.Struct):
    generations: tuple[tuple[NamedSlice, ...], ...]


class _NamesOfSite(msgspec.Struct):
    slices: tuple[NamedSlice, ...]
    pending: tuple[NamedSlice, ...]
    held: tuple[NamedSlice, ...]
    parked: tuple[_NamesOfParked, ...]
    active: tuple[NamedSlice, ...]


class _NamesOfSubquery(msgspec.Struct):
    sites: tuple[_NamesOfSite, ...]


class _Names(msgspec.Struct):
    subqueries: tuple[_NamesOfSubquery, ...]
    staged: tuple[NamedFile, ...]


def names(body: bytes) -> set[str]:
    """Return the names of the runs and the staged files in a body, without reading the rest of it."""
    found = msgspec.json.decode(body, type=_Names)
    sites = [site for subquery in found.subqueries for site in subquery.sites]
    slices = [piece for site in sites for piece in (*site.slices, *site.pending, *site.held, *site.active)]
    parked = [parked for site in sites for parked in site.parked]
    slices += [piece for one in parked for generation in one.generations for piece in generation]
    return {piece.run.name for piece in slices} | {file.name for file in found.staged}
