"""Format 5 of manifests, which is read and no longer written: it knows no parked state.

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
)
from penstock.state.model import Manifest, RangeMark, SiteState, Staged, SubqueryState

NUMBER = 5


class _Site(WrittenObject):
    slices: tuple[WrittenSlice, ...]
    marks: tuple[WrittenRangeMark, ...]
    pending: tuple[WrittenSlice, ...]
    held: tuple[WrittenSlice, ...]
    released: WrittenMark
    turn: int


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
    )


# -- reading names only --------------------------------------------------------------------------------------------


class _NamesOfSite(msgspec.Struct):
    slices: tuple[NamedSlice, ...]
    pending: tuple[NamedSlice, ...]
    held: tuple[NamedSlice, ...]


class _NamesOfSubquery(msgspec.Struct):
    sites: tuple[_NamesOfSite, ...]


class _Names(msgspec.Struct):
    subqueries: tuple[_NamesOfSubquery, ...]
    staged: tuple[NamedFile, ...]


def names(body: bytes) -> set[str]:
    """Return the names of the runs and the staged files in a body, without reading the rest of it."""
    found = msgspec.json.decode(body, type=_Names)
    sites = [site for subquery in found.subqueries for site in subquery.sites]
    slices = [piece for site in sites for piece in (*site.slices, *site.pending, *site.held)]
    return {piece.run.name for piece in slices} | {file.name for file in found.staged}
