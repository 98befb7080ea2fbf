"""The parts of manifests that all formats so far have in common: their JSON, and the translation from and to the model.

Names of fields, their order and their types never change; a format in which one differs has a class of its own for it.
Every field is written and every field is required, so that a missing one never gets a default by accident.
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
from penstock.state.model import SourceState, Totals
from penstock.state.runs import RunFile, Slice

_MOST_GROUPS = 1 << 20  # far more than any manifest has
_MOST_CELLS = 1_000_000  # cells of a grid: more than a setting allows, and than there can be sites


class WrittenObject(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """A JSON object of the format."""


class WrittenMark(WrittenObject):
    ended: bool
    at: int


class WrittenRange(WrittenObject):
    low: int
    high: int


class WrittenRangeMark(WrittenObject):
    range: WrittenRange
    marks: tuple[WrittenMark, ...]


class WrittenRun(WrittenObject):
    name: str
    port: int
    rows: int
    size: int
    checksum: str
    min_time: int
    median_time: int
    max_time: int
    blocks: str


class WrittenSlice(WrittenObject):
    run: WrittenRun
    range: WrittenRange


class WrittenCells(WrittenObject):
    hash: int
    cut: int
    sites: tuple[int, ...]
    gathering: bool


class WrittenDirectory(WrittenObject):
    """Of each group only the length of its prefix is written, which determines the group given the hash order: there
    may be ten thousand groups."""

    sites: int
    groups: tuple[int, ...]
    homes: tuple[int, ...]
    spread: tuple[WrittenCells, ...]
    grid: tuple[int, int] | None


class WrittenSource(WrittenObject):
    progress: dict[str, Any] | None
    marks: dict[str, WrittenMark]
    ended: bool
    floor: WrittenMark
    rows: int


class WrittenStaged(WrittenObject):
    output: str
    name: str
    rows: int
    size: int
    checksum: str


class WrittenTotals(WrittenObject):
    rows_in: int
    rows_out: int
    late_rows: int
    bad_rows: int


class NamedFile(msgspec.Struct):
    name: str


class NamedSlice(msgspec.Struct):
    run: NamedFile


# -- writing ----


def written_totals(totals: Totals) -> WrittenTotals:
    return WrittenTotals(totals.rows_in, totals.rows_out, totals.late_rows, totals.bad_rows)


def written_source(source: SourceState) -> WrittenSource:
    marks = {name: written_mark(mark) for name, mark in source.marks.items()}
    return WrittenSource(source.progress, marks, source.ended, written_mark(source.floor), source.rows)


def written_directory(directory: Directory) -> WrittenDirectory:
    depths = tuple(directory.depths.tolist())
    spread = tuple(WrittenCells(cells.hash, cells.cut, cells.sites, cells.gathering) for cells in directory.spread)
    return WrittenDirectory(directory.sites, depths, directory.homes, spread, directory.grid)


def written_slices(slices: Iterable[Slice]) -> tuple[WrittenSlice, ...]:
    return tuple(WrittenSlice(written_run(piece.run), written_range(piece.range)) for piece in slices)


def written_run(r: RunFile) -> WrittenRun:
    return WrittenRun(r.name, r.port, r.rows, r.size, r.checksum, r.min_time, r.median_time, r.max_time, r.blocks)


def written_range(part: HashRange) -> WrittenRange:
    return WrittenRange(part.low, part.high)


def written_mark(mark: Mark) -> WrittenMark:
    return WrittenMark(mark.ended, mark.at)


# -- reading ----


def read_totals(found: WrittenTotals) -> Totals:
    return Totals(found.rows_in, found.rows_out, found.late_rows, found.bad_rows)


def read_source(found: WrittenSource) -> SourceState:
    marks = {name: read_mark(mark) for name, mark in found.marks.items()}
    return SourceState(found.progress, marks, found.ended, read_mark(found.floor), found.rows)


def read_directory(found: WrittenDirectory) -> Directory:
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


def read_slices(found: Iterable[WrittenSlice]) -> tuple[Slice, ...]:
    return tuple(Slice(read_run(piece.run), read_range(piece.range)) for piece in found)


def read_run(r: WrittenRun) -> RunFile:
    return RunFile(r.name, r.port, r.rows, r.size, r.checksum, r.min_time, r.median_time, r.max_time, r.blocks)


def read_range(found: WrittenRange) -> HashRange:
    return HashRange(found.low, found.high)


def read_mark(found: WrittenMark) -> Mark:
    return Mark(found.ended, found.at)
